"""The layout that Redco 0.4.23 gives to a model of the zoo: its own function, from its wheel.

Redco goes by names, and leaves whole whatever is not called `kernel` or `embedding`. So each matrix
of the zoo is shown to it under the name that Flax has for it.
"""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache

import jax
from compiled.hand import matches, path
from compiled.redco_names import NAMES
from compiled.targets import DEVICES, folder
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import PartitionSpec as P


@cache
def partition_utils():
    """Redco's module, without the rest of Redco, which needs more than JAX and Flax."""
    file = folder() / "redco" / "deployers" / "partition_utils.py"
    spec = importlib.util.spec_from_file_location("redco_partition_utils", file)
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        # It imports pjit, which JAX has renamed.
        warnings.simplefilter("ignore", DeprecationWarning)
        spec.loader.exec_module(module)
    return module


def flax_path(name: str, names: dict[str, str]) -> tuple[str, ...]:
    """The path under which Redco sees a parameter: its place in the tree, then Flax's name."""
    *outer, last = name.split("/")
    found = [new for pattern, new in names.items() if matches(name, pattern)]
    return (*outer, *(found[0].split("/") if found else [last]))


def redco_specs(name: str, params: dict) -> dict:
    """Redco's PartitionSpecs of a model, its axis `mp` called `model`."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(params)
    paths = [flax_path(path(keys), NAMES[name]) for keys, _ in leaves]
    seen = unflatten_dict(dict(zip(paths, (leaf for _, leaf in leaves), strict=True)))
    rules = partition_utils().get_sharding_rules(seen, n_model_shards=DEVICES)
    found = flatten_dict(dict(partition_utils().get_params_spec(seen, rules)))
    specs = [P(*("model" if axis == "mp" else None for axis in found[p])) for p in paths]
    return jax.tree_util.tree_unflatten(treedef, specs)
