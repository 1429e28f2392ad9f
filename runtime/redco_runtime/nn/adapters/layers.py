"""An adapter (LoRA, Hu et al. 2021) beside linear layers of a model that is frozen, as PEFT has it.

Shape letters: B batch, S sequence, D features that come in, F features that go out, A of the adapter.
"""

import inspect
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx

from ...base.messages import UserError, feature
from ...layout.activations import lay_out
from ..dropout import Dropout
from .settings import lengths, scale_of

Model = TypeVar("Model", bound=nnx.Module)

TABLE = "embed"  # of the rows of the vocabulary
# Not in few bits: what chooses experts, by small differences; OPT's, of a table that is narrow.
EXACT = ("router", "project_in", "project_out")


@dataclass(frozen=True)
class LoraSettings:
    """Settings of an adapter. Raises UserError."""

    lora_rank: int = 16  # A: features between the two products of the adapter
    lora_alpha: float = 32.0  # what the adapter adds is times lora_alpha / lora_rank
    lora_dropout: float = 0.0  # share of the features that the adapter does not see, in training
    use_rslora: bool = False  # whether it is times lora_alpha / the root of lora_rank

    def __post_init__(self) -> None:
        if self.lora_rank < 1:
            what = f"{self.lora_rank} is no rank"
            raise UserError(f"--lora-rank: {what}: give a number above 0")

    @property
    def scale(self) -> float:
        """What the adapter adds is times this."""
        return scale_of(self.lora_alpha, self.lora_rank, self.use_rslora)


def with_lora(
    model: Model,
    lora: LoraSettings,
    targets: Collection[str],
    *,
    rngs: nnx.Rngs,
    base: str = "",
    dora: bool = False,
    trained: Collection[str] = (),
) -> Model:
    """Return `model`, with an adapter beside each of its linear layers `targets`; the rest is to be frozen.

    Kernels, and the table of the vocabulary, are stored in the dtype that the model computes in: no
    gradients add up in them. The adapter of `q/kernel` is `q/lora_a` (..., D, A) and `q/lora_b`
    (..., A, F), with DoRA (Liu et al. 2024) `q/lora_m` too, (..., F).
    base: of FORMS in blocks.py, how kernels are stored in few bits; "" for whole.
    trained: layers that are trained in full, and stay as they are; so do layers of classes of one's own.
    Raises UserError for a target that no linear layer of the model is called by.
    """
    dtype = jnp.dtype(model.config.dtype)  # type: ignore[attr-defined]
    block: int = getattr(lora, "lora_block", 0)
    stored = feature("adapters", "nn.adapters.blocks").FORMS[base] if base else None
    absent = {*targets}
    for path, module in [*nnx.iter_modules(model)]:
        for name, layer in [*vars(module).items()]:
            form = None if name in EXACT else stored
            if name in trained:
                continue
            if type(layer) is nnx.Linear and name in targets:
                absent.discard(name)
                setattr(module, name, Adapted(layer, dtype, form, block, lora, dora, rngs))
            elif type(layer) is nnx.Linear:
                setattr(module, name, Frozen(layer, dtype, form, block))
            elif isinstance(layer, nnx.Embed) and (*path, name) == (TABLE,):
                layer.embedding = _cast(layer.embedding, dtype)
            elif _gives_kernel(layer):
                layer.kernel = _cast(layer.kernel, dtype)
                if form:
                    setattr(module, name, Kernels(layer.kernel[...], form, block))
    if absent:
        what = f"the model has no nnx.Linear that is called {', '.join(sorted(absent))}"
        raise UserError(f"ADAPTED of steps.py: {what}: name linear layers of model.py")
    return model


def _gives_kernel(layer: Any) -> bool:
    """Return whether a module is called with nothing, and gives its kernel: that of experts."""
    is_one = isinstance(layer, nnx.Module) and hasattr(layer, "kernel")
    return is_one and not inspect.signature(layer).parameters


def _cast(parameter: nnx.Variable, dtype: jnp.dtype) -> nnx.Param:
    return nnx.Param(parameter[...].astype(dtype))


class Kernels(nnx.Module):
    """A matrix of each expert, in few bits."""

    def __init__(self, kernel: jax.Array, form: Any, block: int) -> None:
        codes, scales = form.quantize(kernel, block)
        self.codes, self.scales = nnx.Param(codes), nnx.Param(scales)

    def __call__(self) -> tuple[jax.Array, jax.Array]:
        """Return codes and scales: `experts` restores matrices where it multiplies, in its own dtype."""
        return self.codes[...], self.scales[...]


class Frozen(nnx.Linear):
    """A linear layer that is not trained; its kernel may be stored in few bits."""

    def __init__(self, layer: nnx.Linear, dtype: jnp.dtype, form: Any, block: int) -> None:
        for name, value in vars(layer).items():
            if not name.startswith("_") and not isinstance(value, nnx.Variable):
                setattr(self, name, value)
        kernel, self.form = _cast(layer.kernel, dtype), form
        if form:
            codes, scales = form.quantize(kernel[...], block)
            self.codes, self.scales = nnx.Param(codes), nnx.Param(scales)
        else:
            self.kernel = kernel
        if layer.bias is not None:
            self.bias = _cast(layer.bias, dtype)

    def __call__(self, x_BSD: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return y_BSF."""
        return self._add_bias(self.product(x_BSD))

    def product(self, x_BSD: jax.Array) -> jax.Array:
        """Return y_BSF without a bias, in the dtype that is computed in."""
        if self.form:
            return self.form.product(x_BSD, self.codes[...], self.scales[...])
        x_BSD, kernel_DF = self.promote_dtype((x_BSD, self.kernel[...]), dtype=self.dtype)
        y_BSF: jax.Array = self.dot_general(x_BSD, kernel_DF, (((x_BSD.ndim - 1,), (0,)), ((), ())))
        return y_BSF

    def _add_bias(self, y_BSF: jax.Array) -> jax.Array:
        return y_BSF if self.bias is None else y_BSF + _row(self.bias[...], y_BSF)


class Adapted(Frozen):
    """A linear layer that is not trained, and products beside it that are."""

    def __init__(
        self,
        layer: nnx.Linear,
        dtype: jnp.dtype,
        form: Any,
        block: int,
        lora: LoraSettings,
        dora: bool,
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(layer, dtype, form, block)
        *stack, D, F = layer.kernel.shape
        A, most = lora.lora_rank, D**-0.5  # drawn as PEFT does, up to the inverse root of D
        self.scale, self.dropout = lora.scale, _dropout(lora.lora_dropout, stack, rngs)
        draw = jax.random.uniform(rngs.params(), (*stack, D, A), minval=-most, maxval=most)
        self.lora_a = nnx.LoRAParam(draw)
        self.lora_b = nnx.LoRAParam(
            jnp.zeros((*stack, A, F))
        )  # so that training starts at the base
        self.lora_m = nnx.LoRAParam(jnp.zeros((*stack, F))) if dora else None

    def __call__(self, x_BSD: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return y_BSF."""
        plain_BSF = self.product(x_BSD)
        y_BSF = self._add_bias(plain_BSF)
        seen_BSD = self.dropout(x_BSD) if self.dropout else x_BSD
        low_BSA = lay_out(seen_BSD @ self.lora_a[...].astype(x_BSD.dtype), "low_BSA")
        added_BSF = self.scale * (low_BSA @ self.lora_b[...].astype(x_BSD.dtype))
        if self.lora_m is None:
            return y_BSF + added_BSF
        if seen_BSD is not x_BSD:
            plain_BSF = self.product(seen_BSD)
        longer_11F = _row(self._lengths(self.lora_m[...]) - 1, y_BSF).astype(y_BSF.dtype)
        return y_BSF + longer_11F * plain_BSF + (1 + longer_11F) * added_BSF

    def _lengths(self, m_F: jax.Array) -> jax.Array:
        """Return share_F, float32: how long each column is to be, of its length with what is added."""
        if self.form:
            kernel_DF = self.form.restore(self.codes[...], self.scales[...], jnp.float32)
        else:
            kernel_DF = self.kernel[...]
        fixed = jax.lax.stop_gradient  # as PEFT has it, and the paper in its section 4.3
        a_DA, b_AF = fixed(self.lora_a[...]), fixed(self.lora_b[...])
        return lengths(fixed(kernel_DF), a_DA, b_AF, m_F, self.scale)


def _row(x_F: jax.Array, y_BSF: jax.Array) -> jax.Array:
    """Return an array (1, ..., 1, F) of as many dims as another one."""
    return x_F.reshape(*(1,) * (y_BSF.ndim - 1), -1)


def _dropout(rate: float, stack: list[int], rngs: nnx.Rngs) -> Dropout | None:
    """Return what drops features, with a random stream for each layer of a stack; None for a rate of 0."""

    def make(rngs: nnx.Rngs) -> Dropout:
        return Dropout(rate, rngs=rngs)

    for size in reversed(stack):
        make = nnx.split_rngs(splits=size)(nnx.vmap(make))
    return make(rngs) if rate else None
