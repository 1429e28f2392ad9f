"""Drawn pictures with captions, to learn from where there are no others."""

import numpy as np

COLORS = {
    "red": (220, 50, 47),
    "green": (60, 180, 75),
    "blue": (38, 110, 230),
    "yellow": (245, 205, 40),
}
SHAPES = {  # name -> whether (x, y) is inside, where the shape reaches from -1 to 1
    "circle": lambda x, y: x**2 + y**2 < 1,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) < 0.9,
    "cross": lambda x, y: (np.minimum(abs(x), abs(y)) < 0.3) & (np.maximum(abs(x), abs(y)) < 1),
    "triangle": lambda x, y: (abs(y) < 0.9) & (2 * abs(x) < 0.9 + y),
}
PLACES = {  # name -> (down, right) of the middle, in heights and widths of the picture
    "top left": (0.25, 0.25),
    "top right": (0.25, 0.75),
    "bottom left": (0.75, 0.25),
    "bottom right": (0.75, 0.75),
}
FINER = 4  # points a pixel, each way, whose mean it is


def draw_scene(rng: np.random.Generator, size: int) -> tuple[np.ndarray, str]:
    """Return a picture, uint8 (size, size, 3), of one of 64 scenes, and its caption."""
    shape, color, place = (str(rng.choice([*names])) for names in (SHAPES, COLORS, PLACES))
    radius = size * rng.uniform(0.18, 0.25)
    top, left = size * (np.array(PLACES[place]) + rng.uniform(-0.03, 0.03, 2))
    y, x = (np.mgrid[: FINER * size, : FINER * size] + 0.5) / FINER
    inside = SHAPES[shape]((x - left) / radius, (y - top) / radius)
    share = inside.reshape(size, FINER, size, FINER).mean(axis=(1, 3))[:, :, None]
    ground = rng.uniform(0, 60)
    pixels = share * np.array(COLORS[color]) + (1 - share) * ground
    return pixels.astype(np.uint8), f"a {color} {shape}, {place}"
