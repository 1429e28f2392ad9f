"""Linear layers: gradients by XLA's fast kernels on a CPU too, and kernels in the dtype of the computation."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from redco_runtime.mesh import platform

# Of x and of the kernel: the dims that are summed over, and those of a batch.
Dims = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
Multiply = Callable[[jax.Array, jax.Array, Dims], jax.Array]


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


def product(x: jax.Array, kernel: jax.Array, dims: Dims, **options: Any) -> jax.Array:
    """Return what jax.lax.dot_general does, of the last dim of `x` and the first of `kernel`.

    On a CPU another program gives the kernel's gradient. JAX's is a product, (gradient)T x, and its
    transpose. XLA makes both one, of a form that its fast kernels for CPUs do not take (jaxlib
    0.10.2: 1.5 to 2.2 times the seconds). They take (x)T gradient, with the transpose written
    before: of `x`, which is the smaller array, and one for all layers that read it.
    """
    multiply: Multiply = partial(jax.lax.dot_general, **options)
    if platform() != "cpu":
        return multiply(x, kernel, dims)

    @jax.custom_jvp
    def multiply_on_cpu(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return multiply(x, kernel, dims)

    @multiply_on_cpu.defjvp
    def differentiate(primals: tuple, tangents: tuple) -> tuple[jax.Array, jax.Array]:
        (x, kernel), (dx, dkernel) = primals, tangents
        # In float32, as XLA multiplies there: its own convert would part the product and its transpose.
        wide = jnp.promote_types(x.dtype, jnp.float32)
        flat = x.reshape(-1, x.shape[-1])
        columns = jax.lax.optimization_barrier(flat.T)  # or XLA puts the transpose into the product
        of_kernel = multiply(columns.astype(wide), dkernel.astype(wide), (((0,), (0,)), ((), ())))
        of_x = multiply(dx, kernel, dims)
        return multiply_on_cpu(x, kernel), of_x + of_kernel.astype(of_x.dtype).reshape(of_x.shape)

    return multiply_on_cpu(x, kernel)
