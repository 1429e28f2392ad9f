"""Products of a model's layers in 8 bits, which some devices compute at twice the speed of bfloat16.

An operand is codes and a scale, its largest element over the largest code. What is written is
`codes.astype(dtype) * scale`: XLA:GPU makes that a product of the codes, and sends these, half the bytes, where
devices gather an operand. The backward pass has codes too.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ..base.messages import UserError
from ..layout.mesh import platform

Operand = tuple[jax.Array, jax.Array | float]  # codes and scales
Form = tuple[Any, Any, int | None]  # codes, those of gradients, the dims that share a scale

FORMS: dict[str, Form] = {
    "float8": (jnp.float8_e4m3fn, jnp.float8_e5m2, None),  # Micikevicius et al. 2022
    "int8": (jnp.int8, jnp.int8, -1),  # 127 steps are few for a batch: a scale a token
}
EXACT = ("router",)  # it chooses experts, by small differences
INT8 = ("TPU v5 lite", "TPU v5", "TPU v6 lite")  # whose data sheets have it at twice bfloat16


def quantize_products(products: str) -> Callable[[nnx.Module], nnx.Module]:
    """Return what makes the layers that a model loops over multiply in one of FORMS: its head, routers and experts stay.

    products: "compute" for the dtype that all else is computed in. Raises UserError where the devices of the mesh
    in place have no such products; a CPU rounds as those do.
    """
    device = jax.sharding.get_mesh().devices.flat[0]
    ada = float(getattr(device, "compute_capability", 0)) >= 8.9
    has = {"float8": ada, "int8": device.device_kind in INT8}
    if device.platform != "cpu" and not has.get(products, True):
        what = f"--products {products}: {device.device_kind} has none"
        raise UserError(f"{what}; float8: NVIDIA from Ada on, int8: TPU v5e, v5p, v6e")

    def quantized(model: nnx.Module) -> nnx.Module:
        for path, one in nnx.iter_modules(model) if products in FORMS else ():
            if isinstance(one, nnx.Linear) and one.kernel.ndim > 2 and path[-1] not in EXACT:
                one.dot_general = MULTIPLY[products]
        return model

    return quantized


def quantize(x: jax.Array, codes: Any, dims: int | None = None) -> Operand:
    """Return codes of an array and their scale, which is of its dtype. On a CPU codes are of that dtype too.

    There XLA's cast to e4m3 makes NaN of some finite numbers (jaxlib 0.10.2, within a train step).
    """
    info: Any = jnp.iinfo(codes) if codes == jnp.int8 else jnp.finfo(codes)
    top, wide, on_cpu = float(info.max), x.astype(jnp.float32), platform() == "cpu"
    scale = (jnp.max(jnp.abs(wide), dims, keepdims=dims is not None) / top).astype(x.dtype)
    scale = jnp.where(scale == 0, 1, scale)
    values = jnp.clip(wide / scale.astype(jnp.float32), -top, top)
    if codes == jnp.int8:
        values = jnp.rint(values)
    elif on_cpu:
        least, step = float(info.smallest_normal), float(info.smallest_subnormal)
        rounded = jax.lax.reduce_precision(values, 8, info.nmant)
        values = jnp.where(jnp.abs(values) < least, jnp.rint(values / step) * step, rounded)
    return values.astype(x.dtype if on_cpu else codes), scale


def dot(a: Operand, b: Operand, over: Any, dtype: Any) -> jax.Array:
    """Return the product of two operands over dims of each; of integers before it is scaled."""
    (x, of_x), (y, of_y), dims = a, b, (over, ((), ()))
    if x.dtype == y.dtype == jnp.int8:
        sums = jax.lax.dot_general(x, y, dims, preferred_element_type=jnp.int32)
        return (sums.astype(jnp.float32) * of_x * of_y).astype(dtype)
    return jax.lax.dot_general(x.astype(dtype) * of_x, y.astype(dtype) * of_y, dims)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def multiply(form: Form, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Return x @ kernel, (..., D) and (D, F), in codes; so are both gradients, but that of an int8 kernel."""
    return _forward(form, x, kernel)[0]


def _forward(form: Form, x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, Any]:
    a, b = quantize(x, form[0], form[2]), quantize(kernel, form[0])
    return dot(a, b, ((x.ndim - 1,), (0,)), x.dtype), (a, b)


def _backward(form: Form, operands: tuple[Operand, Operand], slope: jax.Array) -> Any:
    (a, b), (_, codes, dims), last = operands, form, slope.ndim - 1
    coded, rows = quantize(slope, codes, dims), tuple(range(last))
    # A sum over tokens, each of which has a scale, is none of integers.
    summed = coded if dims is None else (slope, 1.0)
    return dot(coded, b, ((last,), (1,)), slope.dtype), dot(a, summed, (rows, rows), slope.dtype)


multiply.defvjp(_forward, _backward)
MULTIPLY = {k: lambda x, w, dims, form=v, **_: multiply(form, x, w) for k, v in FORMS.items()}
