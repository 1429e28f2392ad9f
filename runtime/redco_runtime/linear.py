"""Linear layers: gradients by XLA's fast kernels on a CPU too, and kernels in the dtype of the computation."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from redco_runtime.mesh import platform

Dims = tuple[tuple[int, ...], tuple[int, ...]]  # of x, of the kernel


def with_products(model: nnx.Module) -> nnx.Module:
    """Return `model`, whose linear layers compute by `product`, but for those with a product of their own."""
    for _, module in nnx.iter_modules(model):
        if isinstance(module, nnx.Linear) and module.dot_general is jax.lax.dot_general:
            module.dot_general = product
    return model


def in_compute_dtype(model: Any) -> Any:
    """Return a copy of `model` whose linear layers and words' table lie in the dtype that they are used in.

    For a loop over tokens, which would read them in float32 and round them for each token: of llama 1B on
    an H100 that is a quarter of what it reads and writes. What they are used for stays the same.
    """
    if not isinstance(model, nnx.Module):
        return model
    model = nnx.clone(model)
    for _, module in nnx.iter_modules(model):
        if isinstance(module, nnx.Linear) and module.dtype is not None:
            _round(module.kernel, module.dtype)
    if isinstance(table := getattr(model, "embed", None), nnx.Embed):
        _round(table.embedding, model.config.dtype)
    return model


def _round(variable: nnx.Variable, dtype: Any) -> None:
    """Make an array of float32 one of `dtype`; one of few bits, or rounded already, stays."""
    array = variable[...]
    if array.dtype == jnp.float32:
        variable.set_value(array.astype(dtype))


def product(x: jax.Array, kernel: jax.Array, dims: tuple[Dims, Dims], **options: Any) -> jax.Array:
    """Return what jax.lax.dot_general does.

    On a CPU both get a dim of size 1, a batch of products. The kernel's gradient is a product that JAX
    then transposes. XLA makes both one product, of a form that its fast kernels for CPUs do not
    take (jaxlib 0.10.2: 1.5 to 2.2 times the seconds, a tenth of a step), except of a batch.
    """
    if platform() != "cpu":
        return jax.lax.dot_general(x, kernel, dims, **options)
    contracted, batch = dims
    shifted = (_later(contracted[0]), _later(contracted[1]))
    batches = ((0, *_later(batch[0])), (0, *_later(batch[1])))
    return jax.lax.dot_general(x[None], kernel[None], (shifted, batches), **options)[0]


def _later(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return where these dims are behind a new one."""
    return tuple(dim + 1 for dim in dims)
