"""Initializers of Flax that draw what a class of PyTorch draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter

from redco_new.pytorch.draws import UNKNOWN, Draw

Express = Callable[[list[float]], str]
I = "nnx.initializers"  # noqa: E741
USUAL = {"1.0", "2.0", "1 / 3"}  # Glorot's and LeCun's, He's, PyTorch's own
BETWEEN = "between"  # of the runtime's nn/uniform.py


def initializer(
    draws: Sequence[Draw | None], shapes: Sequence[tuple[int, ...]], express: Express
) -> str:
    """Return Python of an initializer; "" where the class does not say, or draws as PyTorch's layers do.

    draws, shapes: of a parameter, each time that it is made; shapes as model.py has them
    express: a number, as it is each time, as Python; "" where nothing says it
    """
    first = draws[0]
    if (
        first is None
        or first.kind == UNKNOWN
        or any(d is None or d.kind != first.kind for d in draws)
    ):
        return ""
    rows = [draw.numbers for draw in draws if draw]
    numbers = [[row[i] for row in rows] for i in range(len(rows[0]))]
    if first.kind == "constant":
        names = {0.0: f"{I}.zeros", 1.0: f"{I}.ones"}
        value = express(numbers[0])
        return names.get(first.numbers[0], value and f"{I}.constant({value})")
    if first.kind == "normal":
        if scaled := _scaled("normal", numbers[1], shapes):
            return scaled
        deviation = express(numbers[1])
        return deviation and f"{I}.normal({deviation})"
    if any(low != -high for low, high in rows):
        return ""
    deviations = [high / math.sqrt(3) for high in numbers[1]]
    if scaled := _scaled("uniform", deviations, shapes):
        return scaled
    bound = express(numbers[1])
    return bound and f"{BETWEEN}({bound})"


def is_default(draws: Sequence[Draw | None], fans: Sequence[int]) -> bool:
    """Return whether a parameter of a Linear or Conv is drawn as PyTorch does by itself."""
    bounds = [draw.numbers[1] for draw in draws if draw and draw.kind == "uniform"]
    return len(bounds) == len(fans) and all(
        math.isclose(bound, fan**-0.5, rel_tol=1e-6)
        for bound, fan in zip(bounds, fans, strict=True)
    )


def fan_in(shape: tuple[int, ...]) -> int:
    """Return how many numbers each output of a kernel sums: shape as PyTorch has it, outputs first."""
    return math.prod(shape[1:])


def _scaled(kind: str, deviations: Sequence[float], shapes: Sequence[tuple[int, ...]]) -> str:
    """Return a variance that goes with the sizes of a kernel, where it does: by the dims that Flax takes for inputs and outputs, its last two."""
    if len(shapes[0]) < 2 or len(set(deviations)) == 1:
        return ""
    pairs = [(math.prod(s[:-1]), math.prod(s[:-2]) * s[-1]) for s in shapes]
    modes: dict[str, list[float]] = {
        "fan_in": [float(a) for a, _ in pairs],
        "fan_out": [float(b) for _, b in pairs],
        "fan_avg": [(a + b) / 2 for a, b in pairs],
    }
    said: list[tuple[bool, str]] = []  # whether its number is no usual one, and it
    for mode, fans in modes.items():
        scales = [d * d * fan for d, fan in zip(deviations, fans, strict=True)]
        if max(scales) - min(scales) < 1e-6 * max(scales):
            scale = float(f"{scales[0]:.6g}")
            number = "1 / 3" if math.isclose(scale, 1 / 3, rel_tol=1e-5) else repr(scale)
            said.append(
                (number not in USUAL, f'{I}.variance_scaling({number}, "{mode}", "{kind}")')
            )
    return min(said, key=itemgetter(0))[1] if said else ""
