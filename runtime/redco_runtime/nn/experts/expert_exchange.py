"""Rows of a batch go to the devices of their experts (dispatch), and what these make comes back (combine).

Each way is the other's derivative. Left to jax.shard_map, sums over all devices would be added to it,
of gradients that they have alike.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
from jax.sharding import PartitionSpec as P

from ...layout.mesh import axes_of, free_axes

Axes = tuple[str, ...]
Move = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True)
class Routes:
    """The axes of the mesh between rows and experts."""

    rows: Axes  # split the rows, wherever they are
    within: Axes  # split experts, or one inside: what their devices make of a row is added up
    around: Axes  # split both, and a shard_map runs over them: a device has its own of both

    @property
    def devices(self) -> P:
        """The spec of an array that has one dim more, the first: of each device its own."""
        return P((*self.rows, *self.within) or None)

    def dispatch(self, x: jax.Array, spec: P) -> jax.Array:
        """Return for each device the rows (B, S, ...) that its experts take, of an array that lies as `spec`."""
        return _linear(lambda x: self._gather(x, spec), lambda x: self._add_up(x, spec))(x)

    def combine(self, x: jax.Array, spec: P) -> jax.Array:
        """Return the sum of what each device has made of the rows that it was given, in the layout `spec`."""
        return _linear(lambda x: self._add_up(x, spec), lambda x: self._gather(x, spec))(x)

    def _gather(self, x: jax.Array, spec: P) -> jax.Array:
        def own(x: jax.Array) -> jax.Array:
            for dim, entry in enumerate(spec):
                if axes := tuple(axis for axis in axes_of(entry) if axis not in self.rows):
                    x = jax.lax.all_gather(x, axes, axis=dim, tiled=True)
            return (jax.lax.all_gather(x, self.around, tiled=True) if self.around else x)[None]

        return _on_devices(own, spec, self.devices)(x)

    def _add_up(self, x: jax.Array, spec: P) -> jax.Array:
        def own(x: jax.Array) -> jax.Array:
            x, rest = x[0], self.within
            if self.around:
                x = jax.lax.psum_scatter(x, self.around, tiled=True)
            for dim, entry in enumerate(spec):
                for axis in axes_of(entry):
                    if axis in rest:
                        x = jax.lax.psum_scatter(x, axis, scatter_dimension=dim, tiled=True)
                        rest = tuple(name for name in rest if name != axis)
            return jax.lax.psum(x, rest) if rest else x

        return _on_devices(own, self.devices, spec)(x)


def _on_devices(own: Move, before: P, after: P) -> Move:
    """Return what each device does with its own part, as one function of an array in the layout `before`."""
    axes = {*free_axes()}
    return jax.shard_map(own, axis_names=axes, in_specs=before, out_specs=after, check_vma=False)


def _linear(move: Move, back: Move) -> Move:
    """Return `move`, whose derivative is `back`."""
    run = jax.custom_vjp(move)
    run.defvjp(lambda x: (move(x), None), lambda _, grads: (back(grads),))
    return run
