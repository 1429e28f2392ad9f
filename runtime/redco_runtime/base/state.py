"""What a step carries to the next one, and the names of the arrays in it."""

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

PyTree = Any  # dicts, dataclasses or tuples, nested, whose leaves are arrays, shapes or specs


class ModelState(NamedTuple):
    """All that a model computes with: nested dicts, in which no path is twice."""

    params: PyTree  # those that are trained: gradients, moments and averages are theirs alone
    variables: PyTree  # what else it holds, such as running means; {} for most models
    frozen: PyTree = {}  # parameters that stay as they are; {} for most models

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters, trained or frozen, by path."""
        return flatten(self.params) | flatten(self.frozen)

    @property
    def arrays(self) -> dict[str, Any]:
        """All arrays, by path."""
        return self.parameters | flatten(self.variables)

    def with_arrays(self, arrays: Mapping[str, Any]) -> "ModelState":
        """Return a state like this one, of `arrays`, by path."""
        return ModelState(*(rebuild(part, arrays) for part in self))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class TrainState:
    """All that a checkpoint holds. A new one comes from `new_state`."""

    step: jax.Array  # int32 scalar: updates done
    params: PyTree
    opt_state: PyTree  # that of optax
    variables: PyTree  # as in ModelState
    ema: PyTree  # moving average of the parameters; {} where none is wanted
    grad_norm: jax.Array  # float32 scalar: running mean of the gradients' norm; 0 before the first
    frozen: PyTree  # as in ModelState

    @property
    def model(self) -> ModelState:
        """The part that a step trains."""
        return ModelState(self.params, self.variables, self.frozen)

    @property
    def predictor(self) -> ModelState:
        """The part that is evaluated, predicted with and exported: of the average, if there is one."""
        return ModelState(self.ema or self.params, self.variables, self.frozen)


def new_state(
    model: ModelState, optimizer: optax.GradientTransformation, step: int = 0, average: bool = False
) -> TrainState:
    """Return the state of a run that starts from `model`; with `average`, so does that of parameters."""
    return TrainState(
        step=jnp.asarray(step, jnp.int32),
        params=model.params,
        opt_state=optimizer.init(model.params),
        variables=model.variables,
        ema=jax.tree.map(jnp.copy, model.params) if average else {},
        grad_norm=jnp.zeros((), jnp.float32),
        frozen=model.frozen,
    )


def flatten(tree: PyTree, prefix: str = "") -> dict[str, Any]:
    """Return {"params/layers/attn/q/kernel": leaf}: names that no class of a node is part of."""
    return {
        prefix + jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


def rebuild(tree: PyTree, leaves: Mapping[str, Any]) -> PyTree:
    """Return a pytree like `tree`, of `leaves`, which have the names that `flatten` gives."""
    return jax.tree.unflatten(jax.tree.structure(tree), [leaves[path] for path in flatten(tree)])


def dims_of(shape: Sequence[int], whole: Sequence[int]) -> tuple[int, ...] | None:
    """Return which dims of `whole` an array has that is that, or a mean over its other dims.

    None where it is neither. Where equal sizes leave a choice, the first.
    """
    choices = itertools.combinations(range(len(whole)), len(shape))
    same = (dims for dims in choices if tuple(whole[dim] for dim in dims) == tuple(shape))
    return next(same, None)


def owner(path: str, params: Container[str]) -> str:
    """Return the parameter whose path ends an array's, or "": opt_state/0/mu/q/kernel -> q/kernel."""
    words = path.split("/")
    ends = ("/".join(words[i:]) for i in range(len(words)))
    return next((end for end in ends if end in params), "")
