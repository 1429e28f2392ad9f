"""An adapter beside the kernels of experts, two products for each: as PEFT has it, A and B by expert.

Shape letters: E experts, I features that come in, O features that go out, A of the adapter.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P

from ...base.messages import UserError
from ..experts.expert_rows import product_of
from ..matrices import restore
from .layers import LoraSettings

Model = TypeVar("Model", bound=nnx.Module)


def with_expert_lora(
    model: Model, lora: LoraSettings, targets: Collection[str], *, rngs: nnx.Rngs
) -> Model:
    """Return what `with_lora` has made of a model, with an adapter beside the kernels of experts `targets`.

    That of `gate/kernel`, (..., E, I, O), is `gate/lora_a` (..., E, I, A) and `gate/lora_b` (..., E, A, O). Raises
    UserError for settings that PEFT has not for experts, and for a target that no kernels are called by.
    """
    for flag, value in (("dropout", lora.lora_dropout), ("rslora", lora.use_rslora)):
        if value:
            own = "--use-rslora false" if flag == "rslora" else "--lora-dropout 0"
            raise UserError(f"--lora: PEFT has no {flag} for kernels of experts: give {own}")
    absent = {*targets}
    for _, module in [*nnx.iter_modules(model)]:
        for name, layer in [*vars(module).items()]:
            if name in targets and isinstance(layer, nnx.Module):
                absent.discard(name)
                setattr(module, name, AdaptedKernels(layer, lora, rngs))
    if absent:
        what = f"the model has no kernels of experts that are called {', '.join(sorted(absent))}"
        raise UserError(f"EXPERTS of steps.py: {what}: name those of model.py")
    return model


class AdaptedKernels(nnx.Module):
    """A matrix of each expert that is not trained, and two beside it that are."""

    def __init__(self, layer: Any, lora: LoraSettings, rngs: nnx.Rngs) -> None:
        self.stored = hasattr(layer, "codes")  # in few bits
        if self.stored:
            self.codes, self.scales = layer.codes, layer.scales
            parts = self.codes[...], self.scales[...]
            shape = jax.eval_shape(partial(restore, dtype=jnp.float32), *parts).shape
        else:
            self.kernel, shape = layer.kernel, layer.kernel.shape
        (*stack, I, O), A = shape, lora.lora_rank  # noqa: E741
        most = I**-0.5  # as PEFT draws them
        draw = jax.random.uniform(rngs.params(), (*stack, I, A), minval=-most, maxval=most)
        self.scale = lora.scale
        self.lora_a, self.lora_b = nnx.LoRAParam(draw), nnx.LoRAParam(jnp.zeros((*stack, A, O)))

    def __call__(self) -> "AdaptedKernel":
        """Return the matrices and what is beside them, for `experts`, which multiplies by `product`."""
        base = (self.codes[...], self.scales[...]) if self.stored else (self.kernel[...],)
        return AdaptedKernel(base, self.lora_a[...], self.scale * self.lora_b[...])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AdaptedKernel:
    """One of the three matrices of each expert.

    base: the kernel (E, I, O), or its codes and scales: a tuple is what has no gradient. a: (E, I, A). b: (E, A, O).
    """

    base: Any
    a: Any
    b: Any

    def product(self, multiply: Callable[..., jax.Array], x: jax.Array, *others: Any) -> jax.Array:
        """Return multiply(x, base + a b, *others), by the smaller products.

        others: what `multiply` needs of groups of rows; without, each expert computes x_BSI, or its own x_BSEI.
        """
        base = self.base if len(self.base) > 1 else self.base[0]
        first, second = multiply, multiply
        if not others and x.ndim == 3:
            second = _by_expert
        elif not others:
            first = _by_expert
        low = first(x, self.a.astype(x.dtype), *others)
        return product_of(multiply, x, base, *others) + second(low, self.b.astype(x.dtype), *others)

    def of_base(self, change: Callable[[Any], Any]) -> "AdaptedKernel":
        """Return the same of what `change` makes of the base."""
        if len(self.base) > 1:
            return replace(self, base=change(self.base))
        return replace(self, base=(change(self.base[0]),))

    def specs(self, specs: Callable[[Any, bool], Any], experts: P, mlp: P, last: bool) -> Any:
        """Return the specs of its arrays.

        specs: (a kernel, last) -> those of the base. last: whether it is `down`, whose features that come in are split as
        those are that go out of the others. experts, mlp: of what has no such features, and of what ends with them.
        """
        beside = (P(mlp[0], mlp[2]), experts) if last else (experts, mlp)
        return replace(self.of_base(lambda base: specs(base, last)), a=beside[0], b=beside[1])


def _by_expert(x: jax.Array, kernels: jax.Array) -> jax.Array:
    """Return (..., E, O), of (..., E, I)."""
    return jnp.einsum("...ei,eio->...eo", x, kernels)
