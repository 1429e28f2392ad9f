"""The curve of a loss over the steps: in characters, as SVG, and by matplotlib as PNG."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

Points = Sequence[tuple[int, float]]  # (step, loss), in order
COLUMNS, ROWS = 64, 12  # of characters
WIDTH, HEIGHT, LEFT, BOTTOM = 800, 320, 64, 28  # of the SVG; space for its labels
MOST = 1000  # points that are drawn


def thin(points: Points, most: int) -> Points:
    """Return at most so many points: (last step, mean loss) of parts of equal length."""
    size = -(-len(points) // most) or 1
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [(part[-1][0], sum(y for _, y in part) / len(part)) for part in parts]


def draw_text(points: Points) -> list[str]:
    """Return lines with a star for each part of the steps."""
    columns = thin(points, COLUMNS)
    if not columns:
        return ["no loss that is a number"]
    least, most = _range(columns)
    grid = [[" "] * len(columns) for _ in range(ROWS)]
    for x, (_, y) in enumerate(columns):
        grid[round((most - y) / (most - least) * (ROWS - 1))][x] = "*"
    labels = {0: f"{most:.4g}", ROWS - 1: f"{least:.4g}"}
    lines = [f"{labels.get(i, ''):>9} |{''.join(row)}".rstrip() for i, row in enumerate(grid)]
    return [*lines, f"{'':9} loss, steps {points[0][0]} to {points[-1][0]}"]


def draw_svg(training: Points, held_out: Points) -> str:
    """Return an SVG element with the loss of training as a line, that of held-out examples as dots."""
    points = [*(line := thin(training, MOST)), *(dots := thin(held_out, MOST))]
    if not points:
        return "<p>no loss that is a number</p>"
    least, most = _range(points)
    last = max(max(step for step, _ in points), 1)

    def x(step: float) -> str:
        return f"{LEFT + step / last * (WIDTH - LEFT - 10):.1f}"

    def y(loss: float) -> str:
        return f"{10 + (most - loss) / (most - least) * (HEIGHT - BOTTOM - 10):.1f}"

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="loss over steps">']
    for i in range(5):
        loss, step = least + (most - least) * i / 4, round(last * i / 4)
        parts.append(f'<path class="grid" d="M{LEFT} {y(loss)}H{WIDTH - 10}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(loss)}" dy="4" class="left">{loss:.4g}</text>')
        parts.append(f'<text x="{x(step)}" y="{HEIGHT - 8}" class="below">{step}</text>')
    path = " ".join(f"{x(step)},{y(loss)}" for step, loss in line)
    parts.append(f'<polyline points="{path}"/>')
    parts += [
        f'<circle cx="{x(step)}" cy="{y(loss)}" r="4"><title>step {step}: {loss:.4f}</title></circle>'
        for step, loss in dots
    ]
    return "\n".join([*parts, "</svg>"])


def draw_png(training: Points, held_out: Points, path: Path) -> None:
    """Write the same as a picture."""
    from matplotlib.figure import Figure  # late: it takes 0.4 s, and not all have it

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for points, style, name in ((training, "-", "training"), (held_out, "o", "held out")):
        steps, losses = np.reshape(thin(points, MOST), (-1, 2)).T
        axes.plot(steps, losses, style, label=name)
    axes.set(xlabel="step", ylabel="loss")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def _range(points: Points) -> tuple[float, float]:
    """Return the least and the greatest loss, which differ."""
    least, most = min(y for _, y in points), max(y for _, y in points)
    return least, most if most > least else least + (abs(least) or 1.0)
