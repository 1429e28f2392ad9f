"""A grid of pictures with titles, as a file that people look at."""

import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

COLUMNS, MOST = 8, 32  # pictures of a row, and of all
SIDE = 1.25  # inches of a picture
LETTERS = 18  # of a line of a title that is as wide as a picture, at FONT points
FONT = 7


def write_grid(path: Path, pixels_NHWC: np.ndarray, titles: Sequence[str]) -> None:
    """Write pictures, uint8 (N, H, W, 3), with a title each, the first MOST of them, as a PNG."""
    from matplotlib.figure import Figure  # late: it takes 0.4 s

    count = min(len(titles), MOST)
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * SIDE, rows * (SIDE + 0.35)), layout="constrained")
    cells = figure.subplots(rows, columns, squeeze=False).flat
    for cell in cells:
        cell.set_axis_off()
    for cell, pixels, title in zip(figure.axes, pixels_NHWC, titles, strict=False):
        cell.imshow(pixels, vmin=0, vmax=255)
        cell.set_title(textwrap.fill(title, LETTERS), fontsize=FONT, parse_math=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph ")  # a letter that its font does not have is a box
        figure.savefig(path, dpi=100)
