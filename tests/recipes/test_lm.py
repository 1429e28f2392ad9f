"""The recipe lm: what its loss counts, of rows that are one text and of rows that texts share."""

import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import pipeline

lm = pipeline("lm")
NUMBERS = {
    "mask": ([[1, 1, 1, 1], [1, 1, 0, 0]], [[1, 1, 1, 0], [1, 0, 0, 0]]),
    "segments": ([[1, 1, 2, 2], [1, 2, 2, 0]], [[1, 0, 1, 0], [0, 1, 0, 0]]),
}


class Uniform:
    def hidden(self, input_ids_BS, segments_BS):
        self.segments_BS = segments_BS
        return jnp.zeros((*input_ids_BS.shape, 1))

    def logits(self, x_BSD):
        return jnp.zeros((*x_BSD.shape[:2], 8))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_token_predicts_the_next_one_of_its_text(name):
    numbers, expected = (np.array(x) for x in NUMBERS[name])
    rows = [
        {"input_ids": np.arange(4), name: x.astype(bool if name == "mask" else int)}
        for x in numbers
    ]
    batch, model = lm.collate(rows), Uniform()
    losses, weights = lm.loss(model, batch, None)
    np.testing.assert_array_equal(weights, expected)
    np.testing.assert_allclose(losses, np.log(8), rtol=1e-5)
    assert weights.dtype == jnp.float32 and lm.count(batch) == (numbers > 0).sum()
    assert (model.segments_BS is None) == (name == "mask")
