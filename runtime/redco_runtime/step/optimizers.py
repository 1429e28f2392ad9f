"""What optimizers of any kind can have: clipping, moments in fewer bits, the mean of the parameters."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from ..base.state import PyTree


def clip_by_global_norm(most: float) -> optax.GradientTransformation:
    """Return optax.clip_by_global_norm(most), as one factor.

    Optax divides each gradient and then multiplies it; XLA does not repeat a division in what reads
    it, so on a CPU all gradients were written once more.
    """

    def update(updates: PyTree, state: Any, params: PyTree = None) -> tuple[PyTree, Any]:
        norm = optax.tree.norm(updates)
        factor = jnp.where(norm < most, 1, most / norm)
        return jax.tree.map(lambda g: g * factor.astype(g.dtype), updates), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def store_moments(
    rule: optax.GradientTransformation, dtype: str
) -> optax.GradientTransformationExtraArgs:
    """Return `rule`, whose arrays lie in `dtype`, "float32" or "bfloat16", between steps.

    It computes in float32. The factors of Adafactor stay as they are: they are few, and more of them
    stays in a step than bfloat16 can tell from 1.
    """
    inner = optax.with_extra_args_support(rule)
    if dtype == "float32":
        return inner

    def cast(state: PyTree, dtype: str) -> PyTree:
        def one(x: Any) -> Any:
            moment = isinstance(x, jax.Array) and x.ndim and jnp.issubdtype(x.dtype, jnp.floating)
            return x.astype(dtype) if moment else x

        return jax.tree.map(one, state, is_leaf=lambda x: isinstance(x, optax.FactoredState))

    def init(params: PyTree) -> PyTree:
        return cast(inner.init(params), dtype)

    def update(
        updates: PyTree, state: PyTree, params: PyTree = None, **extra: Any
    ) -> tuple[PyTree, PyTree]:
        updates, state = inner.update(updates, cast(state, "float32"), params, **extra)
        return updates, cast(state, dtype)

    return optax.GradientTransformationExtraArgs(init, update)


def average_parameters(mean: PyTree, params: PyTree, decay: float, step: jax.Array) -> PyTree:
    """Return the moving mean of the parameters after a step; {} stays {}.

    Early steps weigh more, or the mean would long be that of the start: at most (1 + step) / (10 + step)
    of it stays (tf.train.ExponentialMovingAverage).
    step: updates before this one.
    """
    if not mean:
        return mean
    stays = jnp.minimum(decay, (1.0 + step) / (10.0 + step))
    return jax.tree.map(lambda old, new: new + stays.astype(new.dtype) * (old - new), mean, params)
