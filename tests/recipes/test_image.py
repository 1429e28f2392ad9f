"""The recipe image: drawn shapes, a folder of one's own, the loss, and what is told of an image."""

import builtins

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import config, pipeline
from redco_runtime.errors import UserError

image = pipeline("image")
MODEL = {"image_size": 32, "num_channels": 3, "num_classes": 8}


def _config(seed=0, model=MODEL, **data):
    settings = {"image_folder": "", "drawn": 400, "held_out": 0.05}
    return config(settings | data, model, seed)


def _folder(path, **classes):
    """A folder of one's own: {class: pixels of its images}."""
    for name, arrays in classes.items():
        (path / name).mkdir()
        for i, array in enumerate(arrays):
            np.save(path / name / f"{i}.npy", array)
    return _config(image_folder=str(path))


def test_shapes_are_drawn_alike_for_the_same_numbers():
    one = image.draw("circle", 0, 1, 32, 3)
    assert one.shape == (32, 32, 3) and one.dtype == np.uint8
    np.testing.assert_array_equal(one, image.draw("circle", 0, 1, 32, 3))
    others = [image.draw("circle", *at, 32, 3) for at in ((0, 2), (1, 1), (-1, 1))]
    assert all((one != other).any() for other in others)


@pytest.mark.parametrize("shape", image.SHAPES)
def test_a_shape_is_light_on_dark_and_unlike_the_others(shape):
    light = image.draw(shape, 0, 1, 64, 1) > 127
    assert 0.02 < light.mean() < 0.6
    edges = (light[0], light[-1], light[:, 0], light[:, -1])
    assert not any(edge.any() for edge in edges)
    for other in set(image.SHAPES) - {shape}:
        assert (light != (image.draw(other, 0, 1, 64, 1) > 127)).mean() > 0.02


def test_examples_are_shuffled_and_of_all_classes():
    train, held_out = image.examples(_config())
    assert (len(train), len(held_out)) == (380, 20)
    batch = image.collate(train)
    assert batch["pixels"].shape == (380, 32, 32, 3) and batch["pixels"].dtype == np.uint8
    assert np.bincount(batch["label"]).min() > 30
    assert batch["label"][:16].tolist() != [*range(8), *range(8)]  # as they are drawn
    again, other = image.examples(_config()), image.examples(_config(seed=1))
    assert again == (train, held_out) != other
    few = image.examples(_config(model=MODEL | {"num_classes": 2}))[0]
    assert {example["label"] for example in few} == {0, 1}


def test_a_folder_of_ones_own(tmp_path):
    arrays = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    settings = _folder(tmp_path, b=arrays[:3], a=arrays[3:])
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    train, held_out = image.examples(settings)
    batch = image.collate(train + held_out)
    assert sorted(batch["label"].tolist()) == [0, 0, 1, 1, 1]
    found = {
        (x.tobytes(), y) for x, y in zip(batch["pixels"], batch["label"].tolist(), strict=True)
    }
    assert found == {(x.tobytes(), y) for x, y in zip(arrays, (1, 1, 1, 0, 0), strict=True)}
    assert image.classes(settings) == ["a", "b"]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((16, 32, 3), np.uint8), r"uint8 \(16, 32, 3\), and the model takes uint8"),
        (np.zeros((32, 32, 3), np.float32), r"float32 \(32, 32, 3\), and the model takes uint8"),
        (np.zeros((32, 32), np.uint8), r"uint8 \(32, 32, 1\), and the model takes uint8"),
    ],
)
def test_images_that_do_not_fit_are_named(tmp_path, array, message):
    train, _ = image.examples(_folder(tmp_path, a=[array, array]))
    with pytest.raises(UserError, match=rf"a/\d.npy: {message} \(32, 32, 3\)"):
        image.collate(train)


def test_images_need_pillow(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "PIL":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match="x.png: images other than .npy need: pip install pillow"):
        image.read(tmp_path / "x.png", 32, 3)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_resized(tmp_path, channels):
    pillow = pytest.importorskip("PIL.Image")
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, 8:] = 255
    pillow.fromarray(pixels).save(tmp_path / "x.png")
    found = image.read(tmp_path / "x.png", 32, channels)
    assert found.shape == (32, 32, channels)
    assert (found[:, :14] == 0).all() and (found[:, 18:] == 255).all()


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({}, "there are 0 images: give two at least"),
        ({f"c{i}": [] for i in range(9)}, "9 classes, and the model has 8"),
    ],
)
def test_folders_that_cannot_be_learned_are_refused(tmp_path, classes, message):
    with pytest.raises(UserError, match=message):
        image.examples(_folder(tmp_path, **classes))


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="--image-folder: nowhere is not a folder"):
        image.examples(_config(image_folder="nowhere"))


class Brightest:
    """A model of 8 classes that finds a bright image to be of class 3."""

    def __call__(self, pixels_BHWC):
        assert pixels_BHWC.dtype == jnp.float32
        bright_B = pixels_BHWC.mean(axis=(1, 2, 3))
        return bright_B[:, None] * jax.nn.one_hot(3, 8)[None, :]


def test_loss_and_predictions():
    pixels = np.stack([np.full((32, 32, 3), value, np.uint8) for value in (255, 0)])
    batch = {"pixels": pixels, "label": np.array([3, 3])}
    losses, weights = image.loss(Brightest(), batch, None)
    expected = [np.exp(value) / (np.exp(value) + 7) for value in (1, -1)]
    np.testing.assert_allclose(losses, -np.log(expected), rtol=1e-5)
    assert weights.tolist() == [1, 1]
    found = np.asarray(image.predict(Brightest(), batch, None))
    np.testing.assert_allclose(found[:, 3], expected, rtol=1e-5)
    assert image.decode(_config(), found[:1], [None]) == ["frame (0.28)"]
    labels = [{"label": 3}, {"label": 3}]
    assert image.evaluate(_config(), found, labels) == {"accuracy": 0.5}


def test_prompts_are_shapes_or_files(tmp_path):
    np.save(tmp_path / "x.npy", np.full((32, 32, 3), 9, np.uint8))
    found = image.collate(image.prompts(_config(), ["cross", "cross", str(tmp_path / "x.npy")]))
    assert (found["pixels"][2] == 9).all()
    assert (found["pixels"][0] != found["pixels"][1]).any()
    with pytest.raises(UserError, match="--prompt: dog is neither a file nor one of circle"):
        image.prompts(_config(), ["dog"])
