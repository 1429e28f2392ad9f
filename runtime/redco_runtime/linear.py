"""Linear layers whose gradients XLA's fast kernels make on a CPU too."""

from typing import Any

import jax
from flax import nnx

Dims = tuple[tuple[int, ...], tuple[int, ...]]  # of x, of the kernel


def with_products(model: nnx.Module) -> nnx.Module:
    """Return `model`, whose linear layers compute by `product`, but for those with a product of their own."""
    for _, module in nnx.iter_modules(model):
        if isinstance(module, nnx.Linear) and module.dot_general is jax.lax.dot_general:
            module.dot_general = product
    return model


def product(x: jax.Array, kernel: jax.Array, dims: tuple[Dims, Dims], **options: Any) -> jax.Array:
    """Return what jax.lax.dot_general does.

    On a CPU both get a dim of size 1, a batch of products. The kernel's gradient is a product that JAX
    then transposes. XLA makes both one product, of a form that its fast kernels for CPUs do not
    take (jaxlib 0.10.2: 1.5 to 2.2 times the seconds, a tenth of a step), except of a batch.
    """
    device = jax.sharding.get_abstract_mesh().abstract_device
    if device is None or device.platform != "cpu":
        return jax.lax.dot_general(x, kernel, dims, **options)
    contracted, batch = dims
    shifted = (_later(contracted[0]), _later(contracted[1]))
    batches = ((0, *_later(batch[0])), (0, *_later(batch[1])))
    return jax.lax.dot_general(x[None], kernel[None], (shifted, batches), **options)[0]


def _later(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return where these dims are behind a new one."""
    return tuple(dim + 1 for dim in dims)
