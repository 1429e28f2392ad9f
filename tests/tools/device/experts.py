"""The products of experts on the GPU that is here, each alone: what they reach, and what `redco fit` says that they take.

    PYTHONPATH=generator:runtime python tests/tools/device/experts.py

prints a line for each product, forward and of its two gradients: milliseconds, TFLOP/s, and the share of its seconds
that the estimate is. READ of fit/hardware.py is of these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from redco_fit.compiled.groups import Groups
from redco_fit.hardware import HARDWARE, READ
from redco_runtime.nn.experts.grouped_matmul import _kernels, _rows

CALLS = 20


@dataclass(frozen=True)
class Point:
    """Rows that a model sends to experts, E of them with kernels D x F, in blocks."""

    name: str
    rows: int
    E: int
    D: int
    F: int
    block: int = 128


POINTS = (
    Point("qwen3-moe 30b-a3b, 8192 tokens", 65536, 128, 2048, 768),
    Point("qwen3-moe 30b-a3b, 2048 tokens", 16384, 128, 2048, 768, 32),
    Point("mixtral 8x7b, 8192 tokens", 16384, 8, 4096, 14336),
    Point("mixtral 8x7b, model 4, 32768 tokens", 65536, 8, 4096, 3584),
    Point("mixtral 8x22b, 8192 tokens", 16384, 8, 6144, 16384),
)


def seconds_of(function: Callable[..., Any], *arguments: Any) -> float:
    """Return the seconds of one of CALLS calls."""
    run = jax.jit(function)
    jax.block_until_ready(run(*arguments))
    start = time.perf_counter()
    results = [run(*arguments) for _ in range(CALLS)]
    jax.block_until_ready(results[-1])
    return (time.perf_counter() - start) / CALLS


def measure(point: Point) -> Iterator[tuple[str, Groups, float]]:
    """Yield (name, product, seconds) of each product of a point."""
    key, block = jax.random.key(0), point.block
    chosen = jax.random.randint(key, (point.rows,), 0, point.E)
    sizes_E = -(-jnp.bincount(chosen, length=point.E) // block) * block
    room = (point.rows + point.E * (block - 1)) // block * block
    kernels = jax.random.normal(key, (point.E, point.D, point.F), jnp.bfloat16)
    x, y = (jax.random.normal(key, (room, n), jnp.bfloat16) for n in (point.D, point.F))
    arrays = (x, y, kernels, sizes_E)
    one = Groups(float(sizes_E.sum()), point.E, point.D, point.F, block)

    def forward(x, y, kernels, sizes_E):
        return _rows(x, kernels, sizes_E, False, block, False)

    def of_rows(x, y, kernels, sizes_E):
        return _rows(y, kernels, sizes_E, True, block, False)

    def of_kernels(x, y, kernels, sizes_E):
        return _kernels(x, y, sizes_E, block, False)

    yield "forward", one, seconds_of(forward, *arrays)
    yield "rows", replace(one, inner=point.F, columns=point.D), seconds_of(of_rows, *arrays)
    yield "kernels", replace(one, of_kernels=True), seconds_of(of_kernels, *arrays)


def main() -> None:
    hardware = HARDWARE["h100"]
    for point in POINTS:
        for name, product, spent in measure(point):
            cache = product.read / (READ * hardware.cycles)
            least = max(product.flops / hardware.flops["bfloat16"], cache)
            rate, share = product.flops / spent / 1e12, hardware.step_seconds(least) / spent
            print(f"{point.name}, {name}: {1e3 * spent:.2f} ms, {rate:.0f} TFLOP/s, {share:.2f}")


if __name__ == "__main__":
    main()
