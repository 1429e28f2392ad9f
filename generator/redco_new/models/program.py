"""The computation that a layout is derived from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import jax
from flax import nnx
from jax.extend.core import jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr


def _as_it_is(model: nnx.Module, rngs: nnx.Rngs, settings: Any = None) -> nnx.Module:
    return model


def _without_dropout(model: nnx.Module) -> nnx.Module:
    """Return a model that drops nothing by example: that moves no array, and makes no row depend on another."""
    if find_spec("redco_runtime.nn.dropout") is None:  # which a project that drops carries
        return model
    from redco_runtime.nn.dropout import Dropout  # late: load_text makes the runtime importable

    for _, module in nnx.iter_modules(model):
        if isinstance(module, Dropout):
            module.rate, module.rngs = 0.0, nnx.data(None)
    return model


@dataclass(frozen=True)
class Program:
    """The loss of a model, in training.

    build: makes the model, an nnx.Module.
    loss: (model, batch, rngs) -> (losses, weights), with terms or without, or a bare scalar.
    batch: tree of ShapeDtypeStructs.
    routed: whether its terms are those of routers, which sum over the rows of all devices by themselves;
        others are losses of further models, and part of what is traced.
    trained: a filter of Flax NNX, of the parameters that are trained; the others are frozen.
    put: puts an adapter on a model of the project's class, as steps.py does: (model, rngs, its section of config.py).
    copies: branch of the parameters that starts as another one -> that one, as which it lies too.
    """

    build: Callable[[], nnx.Module]
    loss: Callable[[Any, Any, nnx.Rngs], Any]
    batch: Any
    routed: bool = False
    trained: Any = nnx.Param
    put: Callable[..., nnx.Module] = _as_it_is
    copies: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _parts(self) -> tuple[Any, ...]:
        from redco_runtime.step.variables import (
            parts_of,
        )  # late: load_text makes the runtime importable

        return parts_of(lambda: _without_dropout(self.build()))

    @property
    def params(self) -> Any:
        """The parameters, a nested dict of ShapeDtypeStructs."""
        return nnx.to_pure_dict(self._parts[1])

    @property
    def variables(self) -> Any:
        """What it holds beside them, running statistics and the like: a nested dict of ShapeDtypeStructs."""
        return nnx.to_pure_dict(self._parts[3])

    @property
    def frozen(self) -> frozenset[str]:
        """The paths of the parameters that are not trained."""
        from redco_runtime.base.state import flatten

        _, frozen = nnx.split_state(self._parts[1], self.trained, ...)
        return frozenset(flatten(nnx.to_pure_dict(frozen)))

    @property
    def stateful(self) -> bool:
        """Whether the model holds more than parameters: random streams, running means."""
        return bool(jax.tree.leaves(self._parts[2:]))

    def forward(self, params: Any, batch: Any) -> jax.Array:
        """Return the losses of the model in training with these parameters, or the one that there is."""
        if not self.routed:
            return self._losses(params, batch)
        # Without the terms: no loss of a row depends on another row.
        closed = jax.make_jaxpr(self._losses)(params, batch)
        jaxpr = dce_jaxpr(closed.jaxpr, [True], instantiate=True)[0]
        return jaxpr_as_fun(closed.replace(jaxpr=jaxpr))(*jax.tree.leaves((params, batch)))[0]

    def _losses(self, params: Any, batch: Any) -> jax.Array:
        from redco_runtime.step.variables import streams

        graph, _, random, rest = self._parts
        state = jax.tree.map(lambda x: jax.numpy.zeros(x.shape, x.dtype), nnx.to_pure_dict(rest))
        model = nnx.merge(graph, params, streams(random, jax.random.key(0)), state)
        model.train()
        result = self.loss(model, batch, nnx.Rngs(0))
        if not isinstance(result, tuple):
            return result
        losses, _, *terms = result
        if terms and not self.routed:
            losses += sum(factor * value for value, factor in terms[0].values())
        return losses
