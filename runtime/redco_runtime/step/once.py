"""Gradients that devices send once a step, and not in each micro-batch: where no row of a batch depends on another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Var, jaxprs_in_params
from jax.sharding import PartitionSpec as P

from ..base.messages import print_once
from ..base.state import ModelState, PyTree
from ..layout.mesh import add_up, axes_of, free_axes, on_parts
from .gradients import Loss, sum_parts


@dataclass(frozen=True)
class OnceAStep:
    """How the gradients of micro-batches are summed over devices.

    rows: axes of the mesh that split the batch.
        Where `data` or `expert` do, each device sums the gradients of its own rows in float32, and sends them once, after
        all micro-batches. fsdp gathers and scatters in each micro-batch, as in PyTorch's FSDP2 and MaxText: once would be
        to hold the whole model and its gradients in float32 on each device, which fsdp is there to avoid.
    dtype: in which gradients are sent once. add: how they are added up (across.py), whatever the micro-batches; None: XLA does.
    specs: of the model, whose loss then has the parts of it that `expert` splits, on their own devices
        (as `experts` takes them); None: `expert` reduces in each micro-batch.
    """

    rows: Sequence[str]
    dtype: str = "float32"
    specs: ModelState | None = None
    add: Callable[[jax.Array, P], jax.Array] | None = None

    def axes(self, loss: Loss, model: ModelState, batch: PyTree, key: jax.Array) -> tuple[str, ...]:
        """Return the axes over which gradients are sent once; () where that cannot be, which is said."""
        sizes = free_axes()
        own = ("data",) if self.specs is None else ("data", "expert")
        axes = tuple(axis for axis in self.rows if axis in own and sizes.get(axis, 1) > 1)
        return axes if _can_be_apart(loss, model, batch, key, axes) else ()

    def sums(
        self, loss: Loss, model: ModelState, batch: PyTree, keys: jax.Array, axes: tuple[str, ...]
    ) -> tuple[tuple[jax.Array, jax.Array, PyTree], PyTree]:
        """Return the sums that `sum_parts` gives, without variables: each device of `axes` its own, then all."""

        def own(*arrays: PyTree) -> PyTree:
            return jax.tree.map(lambda x: x[None], sum_parts(loss, *arrays)[:2])

        def part(spec: P) -> P:
            return P(*(tuple(a for a in axes_of(entry) if a in axes) or None for entry in spec))

        def others(spec: P) -> tuple[str, ...]:
            return tuple(a for a in axes if not any(a in axes_of(entry) for entry in spec))

        def reduce(sums: jax.Array, spec: P) -> jax.Array:
            if not (over := others(spec)):
                return sums[0]
            few = sums.astype(self.dtype)
            few = self.add(few, P(over, *spec)) if self.add else add_up(few, 1)
            return few.astype(sums.dtype)

        specs = jax.tree.map(lambda x: P(), model) if self.specs is None else self.specs
        grad_specs = jax.tree.map(lambda spec: P(others(spec) or None, *part(spec)), specs.params)
        rows = P(axes)
        run = on_parts(
            own,
            axes,
            in_specs=(jax.tree.map(part, specs), rows, rows),
            out_specs=((rows, rows, grad_specs), rows),
        )
        (value, weight, grads), terms = run(model, batch, keys)
        grads = jax.tree.map(reduce, grads, specs.params)
        return (value.sum(), weight.sum(), grads), jax.tree.map(jnp.sum, terms)


def _can_be_apart(
    loss: Loss, model: ModelState, batch: PyTree, key: jax.Array, axes: tuple[str, ...]
) -> bool:
    """Return whether devices of `axes` can run a loss each on its own rows; XLA (jaxlib 0.10) cannot pick of what two more split."""
    others = [axis for axis, size in free_axes().items() if size > 1 and axis not in axes]
    if not axes or len(others) < 2:
        return True
    program = jax.make_jaxpr(loss)(model, batch, key).jaxpr
    if not _picks(program, {*program.invars[: len(jax.tree.leaves(model))]}):
        return True
    print_once(
        "gradients: sent in each micro-batch, not once a step: the loss picks elements by index (as jnp.take_along_axis, "
        f"optax's cross-entropy of integer labels and nnx.Embed do), which XLA cannot split over {' and '.join(others)} there; a comparison it can"
    )
    return False


def _picks(jaxpr: Jaxpr, tables: set[Var]) -> bool:
    """Return whether a program picks elements of each row by index, or rows of `tables`, outside of a shard_map."""
    for eqn in jaxpr.eqns:
        name, own = eqn.primitive.name, [isinstance(x, Var) and x in tables for x in eqn.invars]
        if name == "gather":
            numbers = eqn.params["dimension_numbers"]
            if own[0] or numbers.operand_batching_dims or len(numbers.start_index_map) > 1:
                return True
        tables |= {*eqn.outvars} if name == "convert_element_type" and own[0] else set()
        for x in jaxprs_in_params(eqn.params) if name != "shard_map" else ():
            if _picks(x, {*compress(x.invars, own[-len(x.invars) :])}):
                return True
    return False
