"""The recipe contrastive: its loss by the plain formula, of all rows wherever they are, and retrieval."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from recipes.pipelines import config, pipeline
from redco_runtime.base.messages import UserError
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.data.pictures.drawings import SHAPES, Drawing, all_drawings
from redco_runtime.base.state import ModelState

clip = pipeline("contrastive")
MODEL = {"image_size": 8, "caption_length": 48}
ROWS = 8


class Linear:
    """A model of one matrix each."""

    def __init__(self, params):
        self.params = params

    def image(self, pixels_BHWC):
        return self._unit(pixels_BHWC.reshape(len(pixels_BHWC), -1) @ self.params["image"])

    def caption(self, bytes_BS):
        return self._unit(bytes_BS.astype(jnp.float32) @ self.params["caption"])

    def scale(self):
        return 5.0

    def _unit(self, x_BE):
        return x_BE / jnp.linalg.norm(x_BE, axis=-1, keepdims=True)


def _params():
    rng = np.random.default_rng(0)
    sizes = {"image": 8 * 8 * 3, "caption": 48}
    return {name: rng.normal(size=(n, 4)).astype(np.float32) for name, n in sizes.items()}


def _config(**data):
    settings = {"image_folder": "", "image_data": (), "drawn": 100, "held_out": 0.1}
    return config(settings | data, MODEL)


def _batch():
    train, _ = clip.examples(_config())
    return clip.collate([train[i] for i in range(ROWS)])


def _loss_and_gradients(devices):
    mesh = make_mesh({"data": devices, "fsdp": 1, "model": 1}, jax.devices()[:devices])
    batch = _batch()

    def loss(state, batch, key):
        return clip.loss(Linear(state.params), batch, None), {}

    with jax.set_mesh(mesh):
        batch = jax.device_put(batch, NamedSharding(mesh, P("data")))
        compute = jax.jit(lambda *args: mean_and_gradients(loss, *args, micro_batches=1))
        return jax.device_get(compute(ModelState(_params(), {}, {}), batch, jax.random.key(0))[:2])


@pytest.mark.slow
def test_the_loss_of_four_devices_is_that_of_all_rows():
    value, grads = _loss_and_gradients(1)
    sharded_value, sharded_grads = _loss_and_gradients(4)
    np.testing.assert_allclose(sharded_value, value, rtol=1e-5)
    for name, grad in grads.items():
        np.testing.assert_allclose(sharded_grads[name], grad, rtol=1e-4, atol=1e-6)
    batch = _batch()
    vectors = clip.predict(Linear(_params()), batch, None)
    odds = np.exp(5 * np.asarray(vectors["image"]) @ np.asarray(vectors["caption"]).T)
    nats = [-np.log(np.diag(odds) / odds.sum(axis=axis)) for axis in (0, 1)]
    np.testing.assert_allclose(value, np.mean(nats), rtol=1e-5)


def test_retrieval_counts_both_ways():
    image = np.eye(4)
    caption = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0.9, 0.1]])
    scores = clip.evaluate(None, {"image": image, "caption": caption}, [None] * 4)
    assert scores == {"caption_at_1": 1.0, "image_at_1": 0.75, "retrieval_at_1": 0.875}
    some = [{"caption": np.array([*b"a cat", 0])}]
    assert clip.decode(None, {"image": image[:1], "caption": image[:1]}, some) == ["1.00 a cat"]


def test_held_out_captions_are_never_trained_on():
    train, held_out = clip.examples(_config())
    assert (len(train), len(held_out)) == (100, 48)
    captions = [{row["caption"].tobytes() for row in rows} for rows in (train, held_out)]
    assert not captions[0] & captions[1] and len(captions[1]) == 48
    again = clip.examples(_config())[1]
    np.testing.assert_array_equal(again[3]["pixels"], held_out[3]["pixels"])


def test_a_folder_of_ones_own(tmp_path):
    np.save(tmp_path / "a.npy", np.full((8, 8, 3), 7, np.uint8))
    line = '{"file_name": "a.npy", "text": "a cat"}\n'
    (tmp_path / "metadata.jsonl").write_text(2 * line)
    settings = _config(image_folder=str(tmp_path))
    train, held_out = clip.examples(settings)
    prompts = clip.prompts(settings, ["0", f"{tmp_path}/a.npy=a dog"])
    batch = clip.collate([train[0], held_out[0], *prompts])
    assert batch["pixels"].shape == (4, 8, 8, 3) and (batch["pixels"] == 7).all()
    captions = [bytes(row[:5]) for row in batch["caption"].astype(np.uint8)]
    assert captions == [b"a cat"] * 3 + [b"a dog"]
    with pytest.raises(UserError, match="--prompt: cat: give the number of a held-out pair, or"):
        clip.prompts(settings, ["cat"])
    (tmp_path / "metadata.jsonl").write_text(2 * line + "{}")
    with pytest.raises(UserError, match="metadata.jsonl:3: '{}': give"):
        clip.examples(settings)


def test_drawings_are_unlike():
    drawings = all_drawings()
    assert len({one.caption for one in drawings}) == len(drawings) == 480
    assert max(len(one.caption) for one in drawings) < 48
    rng = np.random.default_rng(0)
    large = [Drawing("large", "white", name, "in the middle").draw(rng, 64) for name in SHAPES]
    shapes = [pixels[..., 0] > 127 for pixels in large]
    assert all(0.02 < one.mean() < 0.6 for one in shapes)
    differ = [(one != other).mean() for i, one in enumerate(shapes) for other in shapes[:i]]
    assert min(differ) > 0.01
