"""Products of groups of rows, each with a kernel of its own, on NVIDIA's GPUs: Triton's tiles, by Pallas.

XLA has none there: it multiplies every row with every kernel, and masks what it made.

Shape letters: R rows, E groups, C blocks of rows, K and N the dims of a kernel.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from .expert_blocks import GPU

# Of what one program makes: 128 x 128 sums are the most that lie in registers.
TILE = GPU[-1]
STEP = 64  # of the dim that is summed over
LEAST = GPU[0]  # that Triton multiplies
OPTIONS = triton.CompilerParams(num_warps=8, num_stages=3)


def multiply_groups(
    x_RK: jax.Array, kernels_EKN: jax.Array, rows_E: jax.Array, block: int, interpret: bool = False
) -> jax.Array:
    """Return y_RN, each group of rows times its kernel; rows after the last group are zeros.

    rows_E: of each group, multiples of `block`; so is R. block: one of GPU.
    interpret: whether Python computes it.
    """
    y_RN = _multiply(_fill(x_RK), _fill(kernels_EKN), rows_E, block, interpret)
    return y_RN[:, : kernels_EKN.shape[2]]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _multiply(x_RK, kernels_EKN, rows_E, block, interpret):
    return _rows(x_RK, kernels_EKN, rows_E, False, block, interpret)


def _forward(x_RK, kernels_EKN, rows_E, block, interpret):
    y_RN = _multiply(x_RK, kernels_EKN, rows_E, block, interpret)
    return y_RN, (x_RK, kernels_EKN, rows_E)


def _backward(block, interpret, saved, dy_RN):
    x_RK, kernels_EKN, rows_E = saved
    dx_RK = _rows(dy_RN, kernels_EKN, rows_E, True, block, interpret)
    return dx_RK, _kernels(x_RK, dy_RN, rows_E, block, interpret), None


_multiply.defvjp(_forward, _backward)


def _fill(x: jax.Array) -> jax.Array:
    """Return x, zeros added to its last two dims until LEAST divides them."""
    return jnp.pad(x, [(0, -n % LEAST if i >= x.ndim - 2 else 0) for i, n in enumerate(x.shape)])


def _rows(x_RK, kernels, rows_E, transposed: bool, block: int, interpret: bool):
    """Return y_RN: kernels_EKN, or kernels_ENK if `transposed`."""
    (R, K), E = x_RK.shape, kernels.shape[0]
    N = kernels.shape[1 if transposed else 2]
    step, tile = math.gcd(K, STEP), math.gcd(N, TILE)
    first_C = block * jnp.arange(R // block)
    expert_C = (first_C[:, None] >= jnp.cumsum(rows_E)[None, :]).sum(axis=1, dtype=jnp.int32)

    def run(expert_ref, x_ref, kernels_ref, y_ref):
        expert, columns = expert_ref[pl.program_id(0)], pl.ds(pl.program_id(1) * tile, tile)
        of_expert = jnp.minimum(expert, E - 1)

        def add(i, total):
            part = pl.ds(i * step, step)
            at = (of_expert, columns, part) if transposed else (of_expert, part, columns)
            return total + triton.dot(x_ref[:, part], kernels_ref[at], trans_b=transposed)

        steps = (K // step) * (expert < E).astype(jnp.int32)  # no group has the last blocks
        total = jax.lax.fori_loop(0, steps, add, jnp.zeros((block, tile), jnp.float32))
        y_ref[...] = total.astype(y_ref.dtype)

    return pl.pallas_call(
        run,
        grid=(R // block, N // tile),
        in_specs=[_whole(expert_C), pl.BlockSpec((block, K), lambda c, n: (c, 0)), _whole(kernels)],
        out_specs=pl.BlockSpec((block, tile), lambda c, n: (c, n)),
        out_shape=_like(x_RK, (R, N)),
        compiler_params=OPTIONS,
        interpret=interpret,
    )(expert_C, x_RK, kernels)


def _kernels(x_RK, y_RN, rows_E, block: int, interpret: bool) -> jax.Array:
    """Return x^T y of each group: (E, K, N)."""
    (_, K), N, E = x_RK.shape, y_RN.shape[1], rows_E.shape[0]
    high, wide = math.gcd(K, TILE), math.gcd(N, TILE)
    end_E = jnp.cumsum(rows_E, dtype=jnp.int32) // block
    start_E = end_E - rows_E // block

    def run(start_ref, end_ref, x_ref, y_ref, out_ref):
        def add(i, total):
            rows = pl.ds(i * block, block)
            return total + triton.dot(x_ref[rows, :], y_ref[rows, :], trans_a=True)

        zeros = jnp.zeros((high, wide), jnp.float32)
        group = pl.program_id(0)
        total = jax.lax.fori_loop(start_ref[group], end_ref[group], add, zeros)
        out_ref[...] = total.astype(out_ref.dtype)

    R = x_RK.shape[0]
    return pl.pallas_call(
        run,
        grid=(E, K // high, N // wide),
        in_specs=[
            _whole(start_E),
            _whole(end_E),
            pl.BlockSpec((R, high), lambda e, k, n: (0, k)),
            pl.BlockSpec((R, wide), lambda e, k, n: (0, n)),
        ],
        out_specs=pl.BlockSpec((None, high, wide), lambda e, k, n: (e, k, n)),
        out_shape=_like(x_RK, (E, K, N)),
        compiler_params=OPTIONS,
        interpret=interpret,
    )(start_E, end_E, x_RK, y_RN)


def _whole(x: jax.Array) -> pl.BlockSpec:
    return pl.BlockSpec(x.shape, lambda *_: (0,) * x.ndim)


def _like(x: jax.Array, shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    """Return an array of the dtype of x, that varies over the axes over which x does."""
    return jax.eval_shape(lambda x: jnp.broadcast_to(x[0, 0], shape), x)
