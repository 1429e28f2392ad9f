"""A model as the search plans it: one trace and one plan for each mesh and its options."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType

from redco_new.errors import RedcoError
from redco_new.models.program import Program
from redco_new.request import HOST, Request
from redco_plan import DATA, STAGE, Plan, in_stages, shard_shape, token_axes


@dataclass(frozen=True)
class Planned:
    """A model on a mesh.

    causal: whether a token attends to those before it alone.
    length: tokens of an example, as it is to be trained; the trace may have others.
    repeats: how often a micro-batch goes through all stages, in parts of their layers.
    """

    request: Request
    program: Program
    plan: Plan
    causal: bool
    length: int
    repeats: int = 1

    @property
    def batch_parts(self) -> int:
        """In how many parts the devices split a batch."""
        return math.prod(self.plan.mesh[axis] for axis in self.plan.batch_axes)

    @property
    def token_parts(self) -> int:
        """In how many parts they split its tokens: rows, and positions."""
        return math.prod(self.plan.mesh[axis] for axis in token_axes(self.plan))

    @property
    def staged(self) -> bool:
        """Whether its layers are in stages, which compute all of a layer again in the backward pass."""
        return self.plan.mesh.get(STAGE, 1) > 1

    def ticks(self, rows: int) -> int:
        """Return how often a stage computes a row of `rows` on all devices, or waits (redco_runtime/nn/stages.py); 1 without stages."""
        stages = self.plan.mesh.get(STAGE, 1)
        numbers = rows // self.batch_parts * stages * self.repeats
        return numbers + stages - 1 if self.staged else 1

    def rounds(self, rows: int) -> float:
        """Return the same of all layers of a stage, of which a tick of several repeats has a part."""
        return self.ticks(rows) / self.repeats

    def idle(self, rows: int) -> float:
        """Return how many times as long stages take as if none waited."""
        ticks = self.ticks(rows)
        return ticks / (ticks + 1 - self.plan.mesh[STAGE]) if self.staged else 1.0

    @property
    def traced(self) -> tuple[int, int]:
        """Examples and tokens of each, as traced."""
        shape = jax.tree.leaves(self.program.batch)[0].shape
        return shape[0], shape[1] if len(shape) == 2 else 1

    @cached_property
    def parameter_bytes(self) -> int:
        """Bytes of the parameters on each device."""
        return self._bytes(self.plan.partitions)

    @cached_property
    def gradient_bytes(self) -> int:
        """Bytes on each device of the parameters that are trained."""
        return self._bytes(self.plan.partitions, self.plan.frozen)

    def summed_bytes(self, micro_batches: int) -> int:
        """Bytes on each device of the gradients of a micro-batch or a tick, of their sum, and of the sum as zero sends it from stages."""
        sums = (micro_batches > 1) or self.staged
        sent = self.staged and self.request.zero and self.plan.mesh[DATA] > 1
        return (1 + sums + bool(sent)) * self.gradient_bytes

    @cached_property
    def copied_bytes(self) -> int:
        """Bytes on each device of what is read of frozen kernels where layers are written out (redco_runtime/step/frozen_copies.py)."""
        from redco_runtime.step.frozen_copies import LONGER  # late, as of needs

        return sum(
            LONGER.get(str(parameter.dtype), 1) * size
            for parameter, size in self._sizes(self.plan.partitions)
            if parameter.path in self.plan.frozen
        )

    @cached_property
    def moment_bytes(self) -> int:
        """Bytes on each device of one of Adam's two means; 0 where the hosts have them."""
        if self.request.optimizer_memory == HOST:
            return 0
        return self._bytes(self.plan.moments, self.plan.frozen)

    @cached_property
    def turned_bytes(self) -> int:
        """Bytes on each device of layers that change stages, so that each has as many parts of them as repeats; 0 for one."""
        sizes = enumerate(size for _, size in self._sizes(self.plan.partitions))
        return sum(size for i, size in sizes if self.repeats > 1 and in_stages(self.plan, i))

    @cached_property
    def elements(self) -> int:
        """Elements of all parameters."""
        return sum(math.prod(parameter.shape) for parameter in self.plan.parameters)

    def _bytes(self, specs: Any, without: Collection[str] = ()) -> int:
        return sum(size for parameter, size in self._sizes(specs) if parameter.path not in without)

    def _sizes(self, specs: Any) -> Iterator[tuple[Any, int]]:
        """Yield the parameters, and their bytes on each device."""
        for parameter, stored, spec in zip(
            self.plan.parameters, self.plan.stored, specs, strict=True
        ):
            shape = shard_shape(stored, spec, self.plan.mesh)
            yield parameter, math.prod(shape) * parameter.dtype.itemsize

    def batch(self, rows: int) -> Any:
        """Return the shapes of `rows` examples of `length` tokens."""
        traced = self.traced[1]

        def resize(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            shape = (rows, *(self.length if n == traced > 1 else n for n in x.shape[1:2]))
            return jax.ShapeDtypeStruct((*shape, *x.shape[2:]), x.dtype)

        return jax.tree.map(resize, self.program.batch)

    def needs(self, rows: int) -> Any:
        """Return what the runtime finds that a step of `rows` examples needs of memory (its needs.Needs).

        Raises RedcoError where the model does not take texts of that length.
        """
        from redco_runtime.layout.activations import (
            layouts,
        )  # late: reading a model makes it importable
        from redco_runtime.step import expert_memory
        from redco_runtime.step.memory_estimate import measure
        from redco_runtime.base.state import ModelState, flatten, rebuild

        def loss(model: Any, batch: Any, key: jax.Array) -> tuple[Any, dict]:
            whole = rebuild(self.program.params, model.parameters)
            losses = self.program.forward(whole, batch)
            return (losses, jnp.ones(losses.shape, losses.dtype)), {}

        sizes = self.plan.mesh
        auto = (AxisType.Auto,) * len(sizes)
        mesh = AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=auto)
        key = jax.eval_shape(jax.random.key, 0)
        trained, frozen = dict[str, Any](), dict[str, Any]()
        for path, x in flatten(self.program.params).items():
            (frozen if path in self.plan.frozen else trained)[path] = x
        state = ModelState(trained, {}, frozen)
        named = zip((p.path for p in self.plan.parameters), self.plan.partitions, strict=True)
        table = self.plan.activations | dict(named)
        with jax.sharding.use_abstract_mesh(mesh), layouts(table):
            try:
                return measure(loss, state, self.batch(rows), key, self.batch_parts, expert_memory)
            except ValueError as error:
                if self.length == self.traced[1]:
                    raise
                raise RedcoError(
                    f"--seq {self.length}", str(error).rstrip("."), "give fewer"
                ) from None
