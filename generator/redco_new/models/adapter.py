"""Which linear layers of a family have an adapter, as --lora asks for it, and what is trained then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from redco_new.errors import RedcoError
from redco_new.render.values import Name, checked
from redco_new.request import Lora

PLAIN, ADAPTED = "_linear", "_adapted"  # functions of model.py that make a linear layer


class Form(NamedTuple):
    """How the kernels of frozen layers are stored in few bits.

    name: in redco_runtime.adapters.blocks. short, words: for people.
    """

    name: str = ""
    short: str = ""
    words: str = ""


FORMS = {
    "int8": Form("INT8", "in 8 bits", "in 8 bits an element, 64 to a scale"),
    "nf4": Form("NF4", "in 4 bits", "in 4 bits (NF4), 64 elements to a scale"),
}
FROZEN = """

What is trained is an adapter beside linear layers; the rest is frozen: tables %s"""


@dataclass(frozen=True)
class Adapter:
    """What templates print of an adapter, and of the frozen layers that it is beside.

    lora: its sizes; None where all parameters are trained.
    layers: the linear layers that have one, by their names in model.py.
    """

    lora: Annotated[Lora | None, checked("--lora")] = None
    layers: frozenset[Name] = field(default_factory=frozenset)

    def functions(self, projections: Iterable[str]) -> dict[str, str]:
        """Return linear layer -> the function of model.py that makes it."""
        return {name: ADAPTED if name in self.layers else PLAIN for name in projections}

    def _choose(self, trained: str, frozen: str, blocks: str) -> str:
        """Return the text for a model that is trained, frozen, or frozen in few bits."""
        return {"none": trained, "lora": frozen, "blocks": blocks}[self.kind]

    @property
    def kind(self) -> str:
        """The file of templates/models/shared/adapter."""
        if self.lora is None:
            return "none"
        return "blocks" if self.lora.base else "lora"

    @property
    def form(self) -> Form:
        """How kernels are stored in few bits; that of no name where they are not."""
        return FORMS[self.lora.base] if self.lora and self.lora.base else Form()

    @property
    def frozen(self) -> str:
        """The end of the docstring of model.py."""
        blocks = f"in `config.dtype`, and\nkernels {self.form.short}."
        return self._choose("", FROZEN % "and kernels, and in\n`config.dtype`.", FROZEN % blocks)

    @property
    def frozen_but_head(self) -> str:
        """The same of a model whose head has a number for each class of the data."""
        return self.frozen + self._choose("", *["\nThe head is trained too, in full."] * 2)

    def whole(self, sizes: str) -> str:
        """Return what makes a linear layer of these features that is trained in full, so in float32."""
        own = f"nnx.Linear({sizes}, dtype=jnp.dtype(config.dtype), kernel_init=_NORMAL, rngs=rngs)"
        return self._choose(f"_linear(config, {sizes}, rngs)", own, own)

    @property
    def imports(self) -> str:
        """What model.py imports of Python's library."""
        return "\nfrom functools import partial" if self.lora else ""

    @property
    def modules(self) -> str:
        """What model.py imports of the runtime."""
        name = self.form.name
        blocks = f"\nfrom redco_runtime.adapters.blocks import {name}" if name else ""
        return f"{blocks}\nfrom redco_runtime.adapters.lora import Lora" if self.lora else ""

    @property
    def table(self) -> str:
        """The comment on tables of rows."""
        trained = "# In float32, in which the gradients of its rows add up."
        frozen = "# Frozen, so of the dtype of the computation: no gradients add up in it."
        return self._choose(trained, frozen, frozen)

    @property
    def table_dtype(self) -> str:
        """A further argument of nnx.Embed."""
        return ", param_dtype=config.dtype" if self.lora else ""

    @property
    def parameter(self) -> str:
        """A further parameter of `_linear`: the class of the layer."""
        return self._choose("", ", kind=nnx.Linear", ", kind=None")

    @property
    def make(self) -> str:
        """What `_linear` calls."""
        return self._choose("nnx.Linear", "kind", "(kind or partial(Stored, config))")

    @property
    def stored(self) -> str:
        """A further argument of that."""
        return self._choose("", ", param_dtype=dtype", "")

    @property
    def entry(self) -> str:
        """The same as an entry of a dict."""
        return self._choose("", ', "param_dtype": dtype', "")

    @property
    def projection(self) -> str:
        """As such an entry, where the config alone has the dtype."""
        return ', "param_dtype": jnp.dtype(config.dtype)' if self.lora else ""

    @property
    def exact(self) -> str:
        """A further argument of `_linear` for a layer that is not stored in few bits."""
        return self._choose("", "", ", kind=partial(nnx.Linear, param_dtype=config.dtype)")


NO_ADAPTER = Adapter()


def choose_adapter(projections: Mapping[str, str], lora: Lora | None, model: str) -> Adapter:
    """Return the adapter that --lora asks for. Raises RedcoError, which names the layers there are.

    projections: of the model, which --model calls `model`.
    """
    if lora is None:
        return NO_ADAPTER
    layers = set[str]()
    for target in lora.targets or projections:
        named = {ours for ours, theirs in projections.items() if target in (ours, theirs)}
        if not named:
            names = dict.fromkeys((*projections, *projections.values()))
            what = f"{model} has no linear layer {target!r}"
            raise RedcoError("--lora: targets", what, f"choose some of {', '.join(names)}")
        layers |= named
    return Adapter(lora, frozenset(layers))


def adapter_parameters(whole: Sequence[str]) -> Any:
    """Return the filter of Flax of the parameters that are trained: an adapter, and the layers `whole` in full."""
    from flax import nnx  # late: recipes are listed without it

    return nnx.Any(nnx.LoRAParam, *map(nnx.PathContains, whole)) if whole else nnx.LoRAParam


def adapter_filter(whole: Sequence[str]) -> str:
    """Return the same as Python."""
    layers = [f'nnx.PathContains("{name}")' for name in whole]
    return f"nnx.Any({', '.join(['nnx.LoRAParam', *layers])})" if whole else "nnx.LoRAParam"
