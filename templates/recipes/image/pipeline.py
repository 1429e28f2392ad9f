"""The pipeline: what the model learns from, its loss, and its predictions. Made to be edited.

B batch, C classes; of an image, H height, W width, C channels. A name carries its shape: pixels_BHWC.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from redco_runtime.errors import UserError

Batch = dict[str, jax.Array]

SHAPES = {  # name -> whether (x, y) is inside, where the shape reaches from -1 to 1
    "circle": lambda x, y: x**2 + y**2 < 1,
    "ring": lambda x, y: abs(x**2 + y**2 - 0.75) < 0.25,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) < 0.85,
    "frame": lambda x, y: abs(np.maximum(abs(x), abs(y)) - 0.7) < 0.2,
    "cross": lambda x, y: (abs(abs(x) - abs(y)) < 0.3) & (np.maximum(abs(x), abs(y)) < 0.85),
    "plus": lambda x, y: (np.minimum(abs(x), abs(y)) < 0.25) & (np.maximum(abs(x), abs(y)) < 1),
    "triangle": lambda x, y: (abs(y) < 0.9) & (2 * abs(x) < 0.9 + y),
    "bars": lambda x, y: (abs(y) < 1) & (abs(abs(x) - 0.6) < 0.25),
}
FILES = (".npy", ".png", ".jpg", ".jpeg")


def collate(examples: list[dict]) -> dict[str, np.ndarray]:
    """Return one batch of examples: arrays whose first dim is B. Runs on the host."""
    return {
        "pixels": np.stack([load(*example["image"]) for example in examples]),
        "label": np.array([example["label"] for example in examples], np.int32),
    }


def loss(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> tuple[jax.Array, jax.Array]:
    """Return losses_B and weights_B of the class of each image."""
    logits_BC = model(scaled(batch["pixels"])).astype(jnp.float32)
    losses_B = optax.softmax_cross_entropy_with_integer_labels(logits_BC, batch["label"])
    return losses_B, jnp.ones_like(losses_B)


def predict(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> jax.Array:
    """Return probabilities_BC of each class."""
    return jax.nn.softmax(model(scaled(batch["pixels"])).astype(jnp.float32), axis=-1)


def scaled(pixels_BHWC: jax.Array) -> jax.Array:
    """Scale 0 to 255 to float32 from -1 to 1, as the ViTs of Google were trained."""
    return pixels_BHWC.astype(jnp.float32) / 127.5 - 1


def decode(config, outputs, examples):
    """Return the likeliest class of each example, and its probability."""
    names = dict(enumerate(classes(config)))
    best = outputs.argmax(axis=-1)
    return [
        f"{names.get(i, i)} ({row[i]:.2f})" for row, i in zip(outputs, best.tolist(), strict=True)
    ]


def evaluate(config, outputs, examples):
    """Return {"accuracy": share of the examples whose likeliest class is theirs}."""
    labels = np.array([example["label"] for example in examples])
    return {"accuracy": float((outputs.argmax(axis=-1) == labels).mean())}


def examples(config):
    """Return training examples and held-out ones: of the image folder, or drawn."""
    data, names, seed = config.data, classes(config), config.train.seed
    if data.image_folder:
        images = [(path, i) for i, name in enumerate(names) for path in files(data, name)]
    else:
        shapes = [i % len(names) for i in range(data.drawn)]
        images = [((names[label], seed, i), label) for i, label in enumerate(shapes)]
    if len(images) < 2:
        raise UserError(f"there are {len(images)} images: give two at least")
    held_out = max(1, round(len(images) * data.held_out))
    order = np.argsort(words(seed, 0, len(images)), kind="stable")
    rows = [example(config, *images[i]) for i in order]
    return rows[:-held_out], rows[-held_out:]


def prompts(config, texts):
    """Return an example for each text: the path of an image, or the name of a shape to draw."""
    rows = []
    for i, text in enumerate(texts):
        if text not in SHAPES and not Path(text).is_file():
            raise UserError(f"--prompt: {text} is neither a file nor one of {', '.join(SHAPES)}")
        # Drawn anew: examples() has no such index.
        source = (text, config.train.seed, 2**32 + i) if text in SHAPES else Path(text)
        rows.append(example(config, source, 0))
    return rows


def example(config, source, label):
    """Return one example; collate makes its image, of a path or of (shape, seed, index)."""
    return {"image": (source, config.model.image_size, config.model.num_channels), "label": label}


def classes(config):
    """Return the names of the classes, by label: the folders of the image folder, or the shapes."""
    data, limit = config.data, config.model.num_classes
    if not data.image_folder:
        return list(SHAPES)[:limit]
    if not Path(data.image_folder).is_dir():
        raise UserError(f"--image-folder: {data.image_folder} is not a folder")
    names = sorted(path.name for path in Path(data.image_folder).iterdir() if path.is_dir())
    if len(names) > limit:
        raise UserError(f"--image-folder: {len(names)} classes, and the model has {limit}")
    return names


def files(data, name):
    """Return the images of a class, in order."""
    paths = sorted(Path(data.image_folder, name).iterdir())
    return [path for path in paths if path.suffix.lower() in FILES]


def load(source, size, channels):
    """Return the image of a path, or of (shape, seed, index): uint8 (size, size, channels)."""
    if isinstance(source, Path):
        return read(source, size, channels)
    return draw(*source, size, channels)


def read(path, size, channels):
    """Return the pixels of an image: uint8 (size, size, channels). Raises UserError."""
    if path.suffix.lower() == ".npy":
        pixels = np.load(path)
    else:
        try:
            from PIL import Image
        except ImportError:
            raise UserError(f"{path}: images other than .npy need: pip install pillow") from None
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB" if channels == 3 else "L").resize((size, size)))
    pixels = pixels if pixels.ndim == 3 else pixels[..., None]
    if pixels.shape != (size, size, channels) or pixels.dtype != np.uint8:
        actual, wanted = f"{pixels.dtype} {pixels.shape}", f"uint8 {(size, size, channels)}"
        raise UserError(f"{path}: {actual}, and the model takes {wanted}")
    return pixels


def draw(shape, seed, index, size, channels):
    """Draw a shape, light on dark: uint8 (size, size, channels); the same for the same numbers."""
    random = words(seed, index + 1, 3 + 2 * channels) / 2**64  # index 0 is that of the order
    where, light, dark = np.split(random, [3, 3 + channels])
    radius = size * (0.25 + 0.15 * where[0])
    top, left = radius + (size - 2 * radius) * where[1:]
    y, x = np.mgrid[:size, :size] + 0.5
    inside = SHAPES[shape]((x - left) / radius, (y - top) / radius)
    return np.where(inside[..., None], 155 + 100 * light, 100 * dark).astype(np.uint8)


def words(seed, index, count):
    """Return `count` random words of 64 bits: the same for the same seed and index."""
    # NumPy keeps the raw words of Philox for ever; a Generator's methods may change by release.
    return np.random.Philox(key=np.array([seed % 2**64, index], np.uint64)).random_raw(count)
