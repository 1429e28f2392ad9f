"""Layouts as text, one line a parameter: of a project's model, and of each model of the zoo."""

from __future__ import annotations

import jax

from redco_plan import Plan, plan_sharding

MESH = {"data": 1, "fsdp": 2, "model": 4}


def lines(plan: Plan) -> str:
    """One line a parameter: path dtype shape spec per-device-shape reason."""
    found = []
    for row in plan.rows():
        shape, shard = (",".join(map(str, row[key])) for key in ("shape", "shard_shape"))
        spec = ",".join(str(axis) for axis in row["spec"])
        words = f"{row['path']} {row['dtype']} ({shape}) P({spec}) ({shard})"
        found.append(f"{words} {row['reason']}\n")
    return "".join(found)


def zoo() -> dict[str, str]:
    """<model>.txt -> the layout of that model of the zoo over MESH. It needs four devices."""
    from sharding.models import ZOO  # here: it makes random keys, which start JAX's devices

    with jax.numpy_rank_promotion("allow"):
        return {f"{name}.txt": lines(plan_sharding(*ZOO[name], MESH)) for name in ZOO}
