"""The recipe text-to-image: its loss is that of pictures, where painting leads, and how these are read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from recipes.pipelines import config, pipeline
from redco_runtime.base.messages import UserError
from redco_runtime.data.pictures.captions import encode_caption
from redco_runtime.data.pictures.nearest import NearestCaption

painter = pipeline("text-to-image")
MODEL = {"image_size": 4, "caption_length": 8}


class Knower:
    """A model of two pictures: light where there is a caption, dark where there is none."""

    def __call__(self, x_BHWC, t_B, ids_BT):
        picture_B = jnp.where((ids_BT > 0).any(axis=1), 0.5, -0.5)
        return jnp.broadcast_to(picture_B[:, None, None, None], x_BHWC.shape)


def _example(value, text):
    return {"pixels": np.full((4, 4, 3), value, np.uint8), "caption": encode_caption(text, 8)}


BATCH = painter.collate([_example(191, "light")] * 64)  # 191 is 0.5


def test_the_loss_is_that_of_the_picture():
    losses_B, weights_B = painter.loss(Knower(), BATCH, nnx.Rngs(0))
    assert weights_B.tolist() == [1] * 64
    wrong = np.asarray(losses_B) > 0.1  # those whose caption is dropped
    np.testing.assert_allclose(losses_B[~wrong], 0, atol=1e-3)
    assert 0 < wrong.sum() < 20


def test_painting_goes_to_the_guided_picture():
    outputs = jax.device_get(painter.predict(Knower(), BATCH, nnx.Rngs(0)))
    # From -0.5 by twice the difference: to 1.5, of which 1 is the lightest.
    assert outputs["painted"].dtype == np.uint8 and (outputs["painted"] == 255).all()
    np.testing.assert_allclose(outputs["with"], 0, atol=1e-3)
    assert (outputs["without"] > 0.5).all()


def test_pictures_are_read_by_the_nearest_one(monkeypatch):
    real = [_example(0, "dark"), _example(200, "light")]
    monkeypatch.setattr(painter, "nearest", lambda config: NearestCaption(real))
    outputs = {
        "painted": np.stack([np.full((4, 4, 3), x, np.uint8) for x in (90, 110, 255)]),
        "with": np.array([1.0, 1.0, 1.0]),
        "without": np.array([2.0, 2.0, 2.0]),
    }
    assert painter.decode(None, outputs, real) == ["dark", "light", "light"]
    scores = painter.evaluate(None, outputs, [real[0], real[0], real[1]])
    assert scores["read_right"] == pytest.approx(2 / 3)
    assert scores["caption_gain"] == 0.5


def test_prompts_are_captions():
    settings = config({}, MODEL)
    (example,) = painter.prompts(settings, ["a ring"])
    assert example["pixels"].shape == (4, 4, 3)
    assert painter.captions([example]) == ["a ring"]
    with pytest.raises(UserError, match="a caption of 12 bytes, 'a large ring', and the model has"):
        painter.prompts(settings, ["a large ring"])
