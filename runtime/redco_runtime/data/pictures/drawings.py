"""Drawn pictures whose captions differ: as many as tell pairs apart in a batch."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..example_streams import count_held_out
from . import scenes
from .captioned import Captioned
from .captions import encode_caption

SHAPES = scenes.SHAPES | {
    "ring": lambda x, y: abs(x**2 + y**2 - 0.75) < 0.25,
    "frame": lambda x, y: abs(np.maximum(abs(x), abs(y)) - 0.7) < 0.2,
    "star": lambda x, y: (abs(abs(x) - abs(y)) < 0.3) & (np.maximum(abs(x), abs(y)) < 0.85),
    "pair of bars": lambda x, y: (abs(y) < 1) & (abs(abs(x) - 0.6) < 0.25),
}
COLORS = scenes.COLORS | {"purple": (170, 60, 200), "white": (240, 240, 240)}
RADII = {"small": 0.15, "large": 0.25}  # of the picture's size
PLACES = {  # (down, right) of the middle, of the picture's size
    "top left": (0.3, 0.3),
    "top right": (0.3, 0.7),
    "bottom left": (0.7, 0.3),
    "bottom right": (0.7, 0.7),
    "in the middle": (0.5, 0.5),
}
SHIFT = 0.04  # of the middle at most, of the picture's size


class Drawing(NamedTuple):
    """What is drawn: a name of RADII, of COLORS, of SHAPES and of PLACES."""

    radius: str
    color: str
    shape: str
    place: str

    @property
    def caption(self) -> str:
        """What it is called: a small red circle, top left."""
        return f"a {self.radius} {self.color} {self.shape}, {self.place}"

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return its pixels, a little elsewhere each time: uint8 (size, size, 3)."""
        top, left = np.array(PLACES[self.place]) + rng.uniform(-SHIFT, SHIFT, 2)
        radius = RADII[self.radius] * rng.uniform(0.9, 1.1)
        y, x = (np.mgrid[:size, :size] + 0.5) / size
        inside = SHAPES[self.shape]((x - left) / radius, (y - top) / radius)
        pixels = np.where(inside[..., None], COLORS[self.color], rng.uniform(0, 60))
        return pixels.astype(np.uint8)


def all_drawings() -> list[Drawing]:
    """Return every drawing that there is: 480, with a caption each."""
    return [Drawing(*parts) for parts in product(RADII, COLORS, SHAPES, PLACES)]


def draw_pairs(data: Any, model: Any, seed: int) -> tuple[Captioned, Captioned]:
    """Return `data.drawn` training examples, and held-out ones, as `read_captioned`.

    A share `data.held_out` of the captions is held out: no training example has one of these.
    """
    rng, drawings = np.random.default_rng(seed), all_drawings()
    order = [drawings[i] for i in rng.permutation(len(drawings))]
    held_out = count_held_out(len(order), data.held_out)
    rest = order[held_out:]

    def drawn(some: list[Drawing]) -> Captioned:
        pictures = [one.draw(rng, model.image_size) for one in some]
        captions = [encode_caption(one.caption, model.caption_length) for one in some]
        return Captioned(pictures, captions, model.image_size)

    return drawn([rest[i % len(rest)] for i in range(data.drawn)]), drawn(order[:held_out])
