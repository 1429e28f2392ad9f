"""Parameters as they are stored, the fused ones as tuples of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from . import beside  # noqa: F401 (for its rules)
from .forms import in_form, whole_array
from .parts import Parts
from .rewritten import Rewritten, Tree
from .run import path_name

Apart = Mapping[str, tuple[int, tuple[int, ...]]]  # path of a parameter -> (dim, size of each part)


@dataclass(frozen=True)
class Fused(Rewritten):
    """The form of a program whose model fuses parameters.

    apart: the parts that it is stored as. specs: path of a stored parameter -> its layout, if there is one.
    """

    apart: Apart
    specs: Mapping[str, P] | None = None

    def whole(self, stored: Tree) -> Tree:
        """Return parameters in their own shapes."""
        return put_together(stored, self.apart)

    def in_form(self, stored: Tree) -> Tree:
        """Return parameters with Parts in the place of tuples of parts."""
        return as_parts(stored, self.apart, self.specs)


def take_apart(params: Tree, apart: Apart) -> Tree:
    """Return parameters as they are stored: those that `apart` names as tuples of their parts."""

    def cut(path: Any, leaf: jax.Array) -> jax.Array | tuple[jax.Array, ...]:
        if (name := path_name(path)) not in apart:
            return leaf
        dim, sizes = apart[name]
        stops = list(accumulate(sizes))
        if leaf.shape[dim] != stops[-1]:  # of a model of other sizes: specs tell that it has none
            return leaf
        before = (slice(None),) * dim
        pairs = zip([0, *stops], stops, strict=False)
        return tuple(leaf[*before, start:stop] for start, stop in pairs)

    return jax.tree.map_with_path(cut, params)


def put_together(stored: Tree, apart: Apart) -> Tree:
    """Return parameters in their own shapes, from what `take_apart` made of them."""
    return jax.tree.map(whole_array, as_parts(stored, apart), is_leaf=in_form)


def as_parts(stored: Tree, apart: Apart, specs: Mapping[str, P] | None = None) -> Tree:
    """Return stored parameters with Parts in the place of tuples of parts.

    specs: path of a stored parameter -> its layout, if there is one.
    """

    def is_tuple(path: Any, node: Any) -> bool:
        return isinstance(node, tuple) and path_name(path) in apart

    def join(path: Any, node: Any) -> Any:
        if not is_tuple(path, node):
            return node
        name = path_name(path)
        whole = (i for i in range(len(node)) if specs and _is_whole(specs[f"{name}/{i}"]))
        return Parts(node, apart[name][0], tuple(whole))

    return jax.tree.map_with_path(join, stored, is_leaf=is_tuple, is_leaf_takes_path=True)


def _is_whole(spec: P) -> bool:
    """Return whether no axis splits an array but those of the batch."""
    axes = {axis for entry in spec for axis in (entry if isinstance(entry, tuple) else (entry,))}
    return axes <= {None, "data", "fsdp"}
