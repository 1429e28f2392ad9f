"""Adapters that are trained at once, over one frozen model and on the same batches: what each has of its own is stacked.

The first dim N of what is stacked is that of the adapters. What is frozen is there once, and so is the number of the step.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from ..base.state import ModelState, PyTree, TrainState, flatten, rebuild
from ..layout.specs import gradient_size, size_on_device
from ..nn.adapters.settings import A, B
from .gradients import Loss
from .remat import room
from .sweep import Row, rows_of

# Of a state, what each adapter has of its own; of its parts, `step` and `frozen` are those of all.
OWN = ("params", "opt_state", "variables", "ema", "grad_norm")
# The dim that is stacked, as jax.vmap has it.
OF_ALL: dict[str, Any] = {**dict.fromkeys(OWN, 0), "step": None, "frozen": None}
MODEL = ModelState(params=0, variables=0, frozen=None)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Own:
    """What a step takes of one adapter: which of `rates` is its learning rate, the key of its seed, its scale.

    The scale is None where all have one.
    """

    rate: jax.Array
    key: jax.Array
    scale: jax.Array | None
    rates: tuple[float, ...] = field(metadata={"static": True})

    def rule(self, optimizer: Any, steps: int) -> tuple[Any, Callable[[jax.Array], jax.Array]]:
        """Return the update rule and the schedule of a section of config.py, at its own learning rate."""
        schedules = [replace(optimizer, learning_rate=x).schedule(steps) for x in self.rates]

        def schedule(step: jax.Array) -> jax.Array:
            # Each as a run of its own computes it, from a number of Python: its roundings are the same.
            return jnp.stack([jnp.asarray(one(step), jnp.float32) for one in schedules])[self.rate]

        own = replace(optimizer, learning_rate=jnp.array(self.rates, jnp.float32)[self.rate])
        vars(own)["schedule"] = lambda steps: schedule
        return optax.with_extra_args_support(own.transform(steps)), schedule

    def scale_loss(self, loss: Loss) -> Loss:
        """Return the loss of an adapter whose products are times its scale."""
        if self.scale is None:
            return loss

        def scaled_loss(model: ModelState, batch: PyTree, key: jax.Array) -> tuple[Any, PyTree]:
            return loss(scale_products(model, self.scale), batch, key)

        return scaled_loss


def scale_products(model: ModelState, scale: Any) -> ModelState:
    """Return a model, what whose adapter adds is `scale` times as much."""
    leaves = flatten(model.params)
    scaled = {p: x * jnp.asarray(scale, x.dtype) if p.endswith(B) else x for p, x in leaves.items()}
    return model._replace(params=rebuild(model.params, scaled))


class Adapters:
    """The adapters of a configuration, and the steps of all of them by those of one. Raises UserError."""

    def __init__(self, config: Any) -> None:
        self.lora, self.rows = config.lora, rows_of(config)
        self.count, self._at_once = len(self.rows), config.sweep.adapters_at_once

    def of_rank(self, rank: int) -> Any:
        """Return the settings of an adapter of that rank."""
        return replace(self.lora, lora_rank=rank)

    def stack(self, state: TrainState) -> TrainState:
        """Return a state of all adapters, of that of one, both of ShapeDtypeStructs that have a place or none."""
        return replace(state, **{name: self._stack(getattr(state, name)) for name in OWN})

    def shapes(self, model: ModelState) -> dict[str, jax.ShapeDtypeStruct]:
        """Return the parameters of all adapters by path, of those of one."""
        return model._replace(params=self._stack(model.params)).parameters

    def _stack(self, tree: PyTree) -> PyTree:
        def one(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            place: Any = x.sharding and NamedSharding(x.sharding.mesh, P(None, *x.sharding.spec))
            return x.update(shape=(self.count, *x.shape), sharding=place)

        return jax.tree.map(one, tree)

    def room(self, one: TrainState, frozen: int, micro_batches: int) -> int:
        """Return the bytes on each device that are left for what one adapter saves for the backward pass.

        one: its state. frozen: bytes of copies of what is frozen.
        """
        gradients = self._at_once * gradient_size(one, micro_batches)
        used = size_on_device(self.stack(one)) + gradients + frozen
        return room(used) // self._at_once

    def init(
        self, init: Callable[[jax.Array, Any], TrainState]
    ) -> Callable[[jax.Array], TrainState]:
        """Return key -> the state of all. init: (key, settings of an adapter) -> the state of one.

        What is frozen is of the key; an adapter of its own seed, filled up with zeros to the largest rank.
        """

        def make(rank: int, key: jax.Array) -> PyTree:
            return _own(init(key, self.of_rank(rank)))

        def init_all(key: jax.Array) -> TrainState:
            like = jax.eval_shape(partial(make, self.lora.lora_rank), key)
            parts, places = [], []
            for rank in dict.fromkeys(row.rank for row in self.rows):
                rows = [row for row in self.rows if row.rank == rank]
                places += [row.number for row in rows]
                # One after the other: no number depends on how many there are.
                parts.append(jax.lax.map(lambda k, r=rank: _fill_up(make(r, k), like), _keys(rows)))
            order = jnp.argsort(jnp.array(places))
            own = jax.tree.map(lambda *x: jnp.concatenate(x)[order], *parts)
            return replace(init(key, self.lora), **own)

        return init_all

    def start(
        self, start: Callable[[ModelState], TrainState]
    ) -> Callable[[ModelState], TrainState]:
        """Return model of all -> their state. start: the same of one."""
        return jax.vmap(start, in_axes=(MODEL,), out_axes=TrainState(**OF_ALL))

    def loss(self, loss: Callable[..., Any]) -> Callable[..., Any]:
        """Return the loss of all on a batch, rows first: (B, N, ...). loss: of one."""

        def loss_of_all(model: ModelState, batch: PyTree, key: jax.Array) -> Any:
            def one(own: tuple[PyTree, PyTree]) -> Any:
                return loss(model._replace(params=own[0], variables=own[1]), batch, key)

            results = jax.lax.map(one, (model.params, model.variables))
            return jax.tree.map(lambda x: x.swapaxes(0, 1) if x.ndim > 1 else x.mean(), results)

        return loss_of_all

    def train(
        self, train: Callable[[TrainState, PyTree, Own], tuple[TrainState, dict[str, jax.Array]]]
    ) -> Callable[[TrainState, PyTree], tuple[TrainState, dict[str, jax.Array]]]:
        """Return the step of all on a batch: some adapters at once, in a loop whose state is updated in place.

        train: (state, batch, what is one's own) -> (state, values), of one.
        """
        size = self._at_once

        def train_all(state: TrainState, batch: PyTree) -> tuple[TrainState, dict[str, jax.Array]]:
            def one(own: PyTree, settings: Own) -> tuple[PyTree, dict[str, jax.Array]]:
                after, values = train(replace(state, **own), batch, settings)
                return _own(after), values

            def some(stack: PyTree, part: tuple[jax.Array, Own]) -> tuple[PyTree, PyTree]:
                own = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, part[0], size), stack)
                if size == 1:  # the very program of one adapter
                    first = jax.tree.map(lambda x: x[0], (own, part[1]))
                    results = jax.tree.map(lambda x: x[None], one(*first))
                else:
                    results = jax.vmap(one)(own, part[1])
                put = jax.lax.dynamic_update_slice_in_dim
                return (
                    jax.tree.map(lambda x, y: put(x, y, part[0], 0), stack, results[0]),
                    results[1],
                )

            starts, every = jnp.arange(0, self.count, size), self._settings()
            parts = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), every)
            stack, values = jax.lax.scan(some, _own(state), (starts, parts))
            values = {name: x.reshape(self.count) for name, x in values.items()}
            return replace(state, step=state.step + 1, **stack), summary(values)

        return train_all

    def _settings(self) -> Own:
        """Return what steps take of all, stacked."""
        rates = tuple(dict.fromkeys(row.learning_rate for row in self.rows))
        own = jnp.array([rates.index(row.learning_rate) for row in self.rows])
        scales = [row.scale for row in self.rows]
        scale = None if {*scales} == {1.0} else jnp.array(scales, jnp.float32)
        return Own(own, _keys(self.rows), scale, rates)

    def select(self, model: ModelState, number: int) -> ModelState:
        """Return the model with one of its adapters, as the steps of one compute with it."""
        one, scale = self._one(model, number), self.rows[number].scale
        return one if scale == 1 else scale_products(one, scale)

    def cut(self, model: ModelState, number: int) -> ModelState:
        """Return the same at the rank that the adapter has, for the scale of that."""
        one = self._one(model, number)
        return one.with_arrays(one.arrays | _of_rank(flatten(one.params), self.rows[number].rank))

    def _one(self, model: ModelState, number: int) -> ModelState:
        own = model.params, model.variables
        places = jax.tree.map(
            lambda x: NamedSharding(x.sharding.mesh, P(*x.sharding.spec[1:])), own
        )
        params, variables = jax.jit(_take, out_shardings=places)(own, number)
        return ModelState(params, variables, model.frozen)

    def cut_shapes(
        self, shapes: Mapping[str, jax.ShapeDtypeStruct], trained: Mapping[str, Any], number: int
    ) -> dict[str, jax.ShapeDtypeStruct]:
        """Return the shapes of the parameters of one, as `cut` has them. trained: those of them that are stacked."""
        own = {path: shapes[path].update(shape=shapes[path].shape[1:]) for path in trained}
        ranked = jax.eval_shape(partial(_of_rank, rank=self.rows[number].rank), own)
        return {**shapes, **own, **ranked}


def summary(values: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Return scalars of a step of all adapters: of the one whose loss is the lowest, and of each.

    values: name -> (N,), as `take_step` has them. An adapter whose update was not sound stays as it was; the
    step is not "sound" where none was.
    """
    sound, loss = values["sound"], values["loss"]
    best = jnp.argmin(jnp.where(sound, loss, jnp.inf))
    every = {name: x for name, x in values.items() if name != "sound"}
    own = {f"adapter_{i}/{name}": x[i] for name, x in every.items() for i in range(len(loss))}
    first = {name: x[best] for name, x in every.items()}
    worst = jnp.max(jnp.where(sound, loss, -jnp.inf))
    all_of_them = {"adapter": best, "worst_loss": worst, "unsound": jnp.sum(~sound)}
    return {**first, **all_of_them, **own, "sound": sound.any()}


def _own(state: TrainState) -> dict[str, PyTree]:
    return {name: getattr(state, name) for name in OWN}


def _keys(rows: list[Row]) -> jax.Array:
    return jnp.stack([jax.random.key(row.seed) for row in rows])


def _fill_up(tree: PyTree, like: PyTree) -> PyTree:
    def one(x: jax.Array, whole: jax.ShapeDtypeStruct) -> jax.Array:
        rows = [(0, m - n, 0) for n, m in zip(x.shape, whole.shape, strict=True)]
        return jax.lax.pad(x, jnp.zeros((), x.dtype), rows)

    return jax.tree.map(one, tree, like)


def _take(tree: PyTree, number: jax.Array) -> PyTree:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, number, 0, keepdims=False), tree)


def _of_rank(leaves: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Return the two matrices of adapters, without what fills them up."""
    first = {path: x[..., :rank] for path, x in leaves.items() if path.endswith(A)}
    return first | {path: x[..., :rank, :] for path, x in leaves.items() if path.endswith(B)}
