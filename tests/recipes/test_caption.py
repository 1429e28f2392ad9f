"""The recipe caption: what its loss weighs, greedy captions, and their score."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import config, pipeline
from redco_runtime.base.messages import UserError
from redco_runtime.data.pictures.captions import encode_caption

caption = pipeline("caption")
MODEL = {"image_size": 16, "caption_length": 8}
DATA = {"image_folder": "", "drawn": 10, "held_out": 0.2}


class Speller:
    """A model that writes the digits of how light a picture is, whatever it wrote before."""

    def encode(self, pixels_BHWC):
        return pixels_BHWC.mean(axis=(2, 3))

    def decode(self, ids_BT, y_BPD):
        light_B = (y_BPD[:, 0] > 0).astype(jnp.int32)
        written_BT = jnp.where(jnp.arange(8)[None] < 2 + light_B[:, None], ord("a"), 0)
        return jax.nn.one_hot(written_BT, 256) * 9.0


def _example(value, text):
    return {"pixels": np.full((16, 16, 3), value, np.uint8), "caption": encode_caption(text, 8)}


def test_loss_and_captions():
    examples = [_example(0, "aa"), _example(255, "aab")]
    batch = caption.collate(examples)
    losses_BT, weights_BT = caption.loss(Speller(), batch, None)
    assert weights_BT.sum(axis=1).tolist() == [3, 4]  # the bytes, and the end
    right = np.log(np.exp(9) + 255) - 9
    np.testing.assert_allclose(losses_BT[0], right, rtol=1e-3)
    np.testing.assert_allclose(losses_BT[1, 2], right + 9, rtol=1e-5)
    outputs = np.asarray(caption.predict(Speller(), batch, None))
    assert caption.decode(None, outputs, examples) == ["aa", "aaa"]
    assert caption.evaluate(None, outputs, examples) == {"exact_match": 0.5}


def test_prompts_are_numbers_or_files(tmp_path):
    settings = config(DATA, MODEL)
    with pytest.raises(UserError, match="a caption of 2. bytes"):
        caption.prompts(settings, ["0"])
    settings = config(DATA, MODEL | {"caption_length": 32})
    np.save(tmp_path / "x.npy", np.full((16, 16, 3), 7, np.uint8))
    number, file = caption.prompts(settings, ["0", str(tmp_path / "x.npy")])
    held_out = caption.examples(settings)[1]
    np.testing.assert_array_equal(number["pixels"], held_out[0]["pixels"])
    assert (file["pixels"] == 7).all() and file["caption"].shape == (32,)
    with pytest.raises(UserError, match="--prompt: 2: give the number of a held-out example, of"):
        caption.prompts(settings, ["2"])
    with pytest.raises(UserError, match="--prompt: dog is neither a file nor the number of"):
        caption.prompts(settings, ["dog"])
