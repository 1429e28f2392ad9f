"""A small decoder whose sizes suit no number of devices, and what becomes of it on 1 to 16.

python any_count.py   prints in JSON, for each plan, what `measure` finds. It needs a process of its
own, since the number of virtual devices is fixed once JAX has started.

Shapes as in zoo.py: 12 heads, 2 kv heads, a vocabulary of 50257, 2050 positions.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from redco_fit.compiled.hlo import collectives
from sharding.parted import UNOPTIMISED, parted, run, values, whole, worst

from redco_plan import Plan, plan_sharding

COUNTS = (1, 2, 3, 4, 6, 8, 16)
B, S, D, F, N, K, H, V, T, L = 2, 16, 96, 384, 12, 2, 8, 50257, 2050, 2
EVEN = 50304  # a vocabulary that divides by all of COUNTS
CASES = [*((n, True) for n in COUNTS), (3, False), (8, False)]  # devices, whether it adapts
LAYER = {"n": (D,), "q": (D, N * H), "k": (D, K * H), "v": (D, K * H), "o": (N * H, D)}
LAYER |= {"i": (D, F), "b": (F,), "j": (F, D)}
BATCH = {"ids": jax.ShapeDtypeStruct((B, S), jnp.int32)}


def shapes(vocabulary: int = V) -> dict[str, Any]:
    """The parameters: a table of tokens, one of positions, and stacked layers."""
    found = {"t": (vocabulary, D), "p": (T, D)} | {f"l/{k}": (L, *s) for k, s in LAYER.items()}
    return {path: jax.ShapeDtypeStruct(shape, jnp.float32) for path, shape in found.items()}


def layer(x: jax.Array, w: dict[str, jax.Array]) -> tuple[jax.Array, None]:
    h = jax.nn.standardize(x, epsilon=1e-3) * w["n"]
    q, k, v = ((h @ w[name]).reshape(B, S, -1, H) for name in "qkv")
    k, v = (jnp.repeat(y, N // K, 2) for y in (k, v))
    scores = jnp.where(np.tril(np.ones((S, S), bool)), jnp.einsum("bqnh,btnh->bnqt", q, k), -1e9)
    x = x + jnp.einsum("bnqt,btnh->bqnh", jax.nn.softmax(scores), v).reshape(B, S, -1) @ w["o"]
    return x + jax.nn.gelu(x @ w["i"] + w["b"]) @ w["j"], None


def forward(p: dict[str, jax.Array], batch: dict[str, jax.Array]) -> jax.Array:
    ids = batch["ids"]
    x = p["t"][ids] + p["p"][jnp.cumsum(ids > 9, -1) + 2]
    x, _ = jax.lax.scan(layer, x, {name: p[f"l/{name}"] for name in LAYER})
    return x @ p["t"].T


def plan_of(n: int, *, adapt: bool, vocabulary: int = V) -> Plan:
    return plan_sharding(forward, shapes(vocabulary), BATCH, {"model": n}, adapt=adapt)


def measure(n: int, adapt: bool, expected: Any) -> dict[str, Any]:
    """error: of loss and gradients, against `expected`.  collectives: the kind of each."""
    plan, arrays = plan_of(n, adapt=adapt), (values(shapes(), V), values(BATCH, V, 1))
    program = parted(*arrays, plan).compile(UNOPTIMISED)
    return {"error": worst(run(program, *arrays, plan), expected), "collectives": kinds(program, n)}


def kinds(program: Any, n: int) -> list[str]:
    return sorted(one.kind for one in collectives(program.as_text(), n))


def even(n: int) -> dict[str, Any]:
    """The collectives where nothing has to be padded."""
    plan = plan_of(n, adapt=True, vocabulary=EVEN)
    program = parted(shapes(EVEN), BATCH, plan).compile(UNOPTIMISED)
    return {"collectives": kinds(program, n)}


def main() -> None:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", max(COUNTS))
    arrays = values(shapes(), V), values(BATCH, V, 1)
    expected = whole(forward, *arrays).compile(UNOPTIMISED)(*arrays)
    found = [[n, adapt, V, measure(n, adapt, expected)] for n, adapt in CASES]
    print(json.dumps(found + [[n, True, EVEN, even(n)] for n in (4, 8)]))


if __name__ == "__main__":
    main()
