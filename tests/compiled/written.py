"""Compiles models that an expert would write in another way, and what the expert writes.

    python -m compiled.written

For H100, in the environment of targets.py. Prints a line of JSON for each model: what its step sends
in our layout, and what the expert's model does in the expert's (sharding/zoo_apart.py).
"""

from __future__ import annotations

import json
from typing import Any

import jax
from compiled.program import measure
from compiled.targets import DEVICES, mesh_of
from jax.sharding import PartitionSpec as P
from redco_plan import plan_sharding
from sharding.zoo_apart import WRITTEN

MODELS = ("merged", "experts", "mamba2")
ENDS = {0: "t", 1: "u"}


def expert_specs(params: Any, split: dict[int, str]) -> Any:
    """The PartitionSpecs of a model: dim -> the names that `model` splits along it."""
    dims = {
        name: dim for plan in (ENDS, split) for dim, names in plan.items() for name in names.split()
    }

    def spec(path: Any, _: Any) -> P:
        name = path[-1].key
        return P(*(None,) * dims[name], "model") if name in dims else P()

    return jax.tree_util.tree_map_with_path(spec, params)


def main() -> None:
    mesh = mesh_of("h100")
    for name in MODELS:
        (forward, params, batch), (own, whole, _), split = WRITTEN[name]
        plan = plan_sharding(forward, params, batch, {"model": DEVICES}, apart=True)
        specs = jax.tree.map(
            lambda s: P(*("model" if a == "model" else None for a in s)), plan.specs
        )
        ours = measure(plan.forward, jax.eval_shape(plan.store, params), batch, specs, mesh)
        hand = measure(own, whole, batch, expert_specs(whole, split), mesh)
        print(json.dumps({"model": name, "ours": ours, "hand": hand}), flush=True)


if __name__ == "__main__":
    main()
