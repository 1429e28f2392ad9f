"""Linear layers, whose gradients XLA's fast kernels compute on a CPU too."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ..layout.mesh import platform

# Of x and of the kernel: the dims that are summed over, and those of a batch.
Dims = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
Multiply = Callable[[jax.Array, jax.Array, Dims], jax.Array]


def with_products(model: nnx.Module) -> nnx.Module:
    """Return `model`, whose linear layers compute by `product`, but for those with a product of their own."""
    for _, module in nnx.iter_modules(model):
        if isinstance(module, nnx.Linear) and module.dot_general is jax.lax.dot_general:
            module.dot_general = product
    return model


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
