"""Operations of PyTorch in JAX: one line each.

Names of a line are the arguments of the operation, as PyTorch's schema has them: `python -c "import torch;
print(torch.ops.aten.softmax.int._schema)"`. Of several texts the first that has all arguments which a call gives
is printed; one that none has is refused. What needs more than a text is a function of rules.py.
"""

from collections.abc import Collection

from redco_new.pytorch.expressions import names_in

RULES: dict[str, str | tuple[str, ...]] = {
    # of each number
    "__and__": "self & other",
    "__or__": "self | other",
    "abs": "jnp.abs(self)",
    "add": ("self + other", "self + alpha * other"),
    "bitwise_and": "self & other",
    "bitwise_not": "~self",
    "bitwise_or": "self | other",
    "bitwise_xor": "self ^ other",
    "atan2": "jnp.arctan2(self, other)",
    "ceil": "jnp.ceil(self)",
    "clamp": ("jnp.maximum(self, min)", "jnp.minimum(self, max)", "jnp.clip(self, min, max)"),
    "clamp_max": "jnp.minimum(self, max)",
    "clamp_min": "jnp.maximum(self, min)",
    "cos": "jnp.cos(self)",
    "detach": "jax.lax.stop_gradient(self)",
    "elu": ("jax.nn.elu(self)", "jax.nn.elu(self, alpha)"),
    "eq": "self == other",
    "erf": "jax.lax.erf(self)",
    "exp": "jnp.exp(self)",
    "exp2": "jnp.exp2(self)",
    "expm1": "jnp.expm1(self)",
    "floor": "jnp.floor(self)",
    "floor_divide": "self // other",
    "ge": "self >= other",
    "gt": "self > other",
    "hardsigmoid": "jax.nn.hard_sigmoid(self)",
    "hardswish": "jax.nn.hard_swish(self)",
    "hardtanh": ("jax.nn.hard_tanh(self)", "jnp.clip(self, min_val, max_val)"),
    "isinf": "jnp.isinf(self)",
    "isnan": "jnp.isnan(self)",
    "le": "self <= other",
    "leaky_relu": "jax.nn.leaky_relu(self, negative_slope)",
    "lerp": "self + weight * (end - self)",
    "log": "jnp.log(self)",
    "log1p": "jnp.log1p(self)",
    "log2": "jnp.log2(self)",
    "log_sigmoid": "jax.nn.log_sigmoid(self)",
    "logical_and": "self & other",
    "logical_not": "~self",
    "logical_or": "self | other",
    "lt": "self < other",
    "masked_fill": "jnp.where(mask, value, self)",
    "maximum": "jnp.maximum(self, other)",
    "minimum": "jnp.minimum(self, other)",
    "mish": "jax.nn.mish(self)",
    "mul": "self * other",
    "ne": "self != other",
    "neg": "-self",
    "pow": "self ** exponent",
    "prelu": "jnp.where(self > 0, self, weight * self)",
    "reciprocal": "1 / self",
    "relu": "jax.nn.relu(self)",
    "relu6": "jax.nn.relu6(self)",
    "remainder": "self % other",
    "round": "jnp.round(self)",
    "rsqrt": "jax.lax.rsqrt(self)",
    "rsub": "other - self",
    "selu": "jax.nn.selu(self)",
    "sigmoid": "jax.nn.sigmoid(self)",
    "sign": "jnp.sign(self)",
    "silu": "jax.nn.silu(self)",
    "sin": "jnp.sin(self)",
    "softplus": "jax.nn.softplus(self)",
    "sqrt": "jnp.sqrt(self)",
    "square": "jnp.square(self)",
    "sub": ("self - other", "self - alpha * other"),
    "tanh": "jnp.tanh(self)",
    "where": "jnp.where(condition, self, other)",
    # complex
    "complex": "jax.lax.complex(real, imag)",
    **{
        f"fft_{name}": (
            f"jnp.fft.{name}(self)",
            f"jnp.fft.{name}(self, axis=dim)",
            f"jnp.fft.{name}(self, n)",
            f"jnp.fft.{name}(self, n, axis=dim)",
            f"jnp.fft.{name}(self, n, axis=dim, norm=norm)",
        )
        for name in ("fft", "ifft", "rfft", "irfft")
    },
    **{
        f"fft_{name}": (
            f"jnp.fft.{name}(self)",
            f"jnp.fft.{name}(self, axes=dim)",
            f"jnp.fft.{name}(self, s)",
            f"jnp.fft.{name}(self, s, axes=dim)",
            f"jnp.fft.{name}(self, s, axes=dim, norm=norm)",
        )
        for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
    },
    "conj": "jnp.conj(self)",
    "imag": "self.imag",
    "polar": "abs * jnp.exp(1j * angle)",
    "real": "self.real",
    "view_as_complex": "jax.lax.complex(self[..., 0], self[..., 1])",
    "view_as_real": "jnp.stack([self.real, self.imag], axis=-1)",
    # products
    "addmm": "mat1 @ mat2 + self",
    "baddbmm": ("self + batch1 @ batch2", "beta * self + alpha * (batch1 @ batch2)"),
    "bmm": "self @ mat2",
    "dot": "self @ tensor",
    "linear": ("input @ weight.T", "input @ weight.T + bias"),
    "matmul": "self @ other",
    "mm": "self @ mat2",
    "mv": "self @ vec",
    "outer": "jnp.outer(self, vec2)",
    # along dims
    "all": (
        "jnp.all(self)",
        "jnp.all(self, axis=dim)",
        "jnp.all(self, axis=dim, keepdims=keepdim)",
    ),
    "amax": ("jnp.max(self, axis=dim)", "jnp.max(self, axis=dim, keepdims=keepdim)"),
    "amin": ("jnp.min(self, axis=dim)", "jnp.min(self, axis=dim, keepdims=keepdim)"),
    "any": (
        "jnp.any(self)",
        "jnp.any(self, axis=dim)",
        "jnp.any(self, axis=dim, keepdims=keepdim)",
    ),
    "argmax": ("jnp.argmax(self)", "jnp.argmax(self, axis=dim, keepdims=keepdim)"),
    "argmin": ("jnp.argmin(self)", "jnp.argmin(self, axis=dim, keepdims=keepdim)"),
    "argsort": "jnp.argsort(self, axis=dim, descending=descending)",
    "cumprod": "jnp.cumprod(self, axis=dim)",
    "cumsum": "jnp.cumsum(self, axis=dim)",
    "linalg_vector_norm": (
        "jnp.linalg.vector_norm(self)",
        "jnp.linalg.vector_norm(self, ord=ord, axis=dim)",
        "jnp.linalg.vector_norm(self, ord=ord, axis=dim, keepdims=keepdim)",
        "jnp.linalg.vector_norm(self.astype(dtype), ord=ord, axis=dim, keepdims=keepdim)",
    ),
    "log_softmax": (
        "jax.nn.log_softmax(self, axis=dim)",
        "jax.nn.log_softmax(self.astype(dtype), axis=dim)",
    ),
    "logsumexp": "jax.nn.logsumexp(self, axis=dim, keepdims=keepdim)",
    "prod": ("jnp.prod(self)", "jnp.prod(self, axis=dim, keepdims=keepdim)"),
    "softmax": ("jax.nn.softmax(self, axis=dim)", "jax.nn.softmax(self.astype(dtype), axis=dim)"),
    # shapes and places
    "cat": "jnp.concatenate(tensors, axis=dim)",
    "concat": "jnp.concatenate(tensors, axis=dim)",
    "broadcast_tensors": "jnp.broadcast_arrays(*tensors)",
    "concatenate": "jnp.concatenate(tensors, axis=dim)",
    "expand_as": "jnp.broadcast_to(self, other.shape)",
    "flip": "jnp.flip(self, axis=dims)",
    "scatter": (
        "jnp.put_along_axis(self, index, src, axis=dim, inplace=False)",
        "jnp.put_along_axis(self, index, value, axis=dim, inplace=False)",
    ),
    "gather": "jnp.take_along_axis(self, index, axis=dim)",
    "index_select": "jnp.take(self, index, axis=dim)",
    "movedim": "jnp.moveaxis(self, source, destination)",
    "numpy_T": "self.T",
    "one_hot": "jax.nn.one_hot(self, num_classes, dtype=jnp.int32)",
    "permute": "self.transpose(dims)",
    "repeat_interleave": "jnp.repeat(self, repeats, axis=dim)",
    "roll": ("jnp.roll(self, shifts)", "jnp.roll(self, shifts, axis=dims)"),
    "squeeze": ("jnp.squeeze(self)", "jnp.squeeze(self, axis=dim)"),
    "stack": "jnp.stack(tensors, axis=dim)",
    "t": "self.T",
    "transpose": "self.swapaxes(dim0, dim1)",
    "tril": ("jnp.tril(self)", "jnp.tril(self, diagonal)"),
    "triu": ("jnp.triu(self)", "jnp.triu(self, diagonal)"),
    # new arrays
    "linspace": (
        "jnp.linspace(start, end, steps)",
        "jnp.linspace(start, end, steps, dtype=dtype)",
    ),
    "logspace": (
        "jnp.logspace(start, end, steps)",
        "jnp.logspace(start, end, steps, base=base)",
        "jnp.logspace(start, end, steps, base=base, dtype=dtype)",
    ),
    "ones_like": ("jnp.ones_like(self)", "jnp.ones_like(self, dtype)"),
    "tril_indices": "jnp.stack(jnp.tril_indices(row, offset, col))",
    "triu_indices": "jnp.stack(jnp.triu_indices(row, offset, col))",
    "empty_like": ("jnp.zeros_like(self)", "jnp.zeros_like(self, dtype)"),
    "fill": "jnp.full_like(self, value)",
    "zeros_like": ("jnp.zeros_like(self)", "jnp.zeros_like(self, dtype)"),
    "full_like": ("jnp.full_like(self, fill_value)", "jnp.full_like(self, fill_value, dtype)"),
}
# Arguments that say nothing about what is computed.
SILENT = frozenset(
    "device layout pin_memory memory_format non_blocking implicit path cudnn_enable cudnn_enabled sparse sparse_grad"
    " scale_grad_by_freq padding_idx output_size sorted".split()
)


def text_for(operation: str, arguments: Collection[str]) -> str:
    """Return the first text of an operation that has all arguments that a call says; "" for none."""
    texts = RULES[operation]
    several = (texts,) if isinstance(texts, str) else texts
    return next((text for text in several if {*arguments} <= names_in(text)), "")
