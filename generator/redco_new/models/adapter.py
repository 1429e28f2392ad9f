"""Which linear layers of a family have an adapter, as --lora asks for it, and what is trained then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redco_new.errors import RedcoError
from redco_new.request import Lora

PLAIN, ADAPTED = "_linear", "_adapted"  # functions of model.py that make a linear layer


@dataclass(frozen=True)
class Adapter:
    """What templates print of an adapter.

    kind: the file of templates/models/shared/adapter.
    layers: the linear layers that have one, by their names in model.py.
    """

    kind: str = "none"
    layers: frozenset[str] = field(default_factory=frozenset)

    def functions(self, projections: Iterable[str]) -> dict[str, str]:
        """Return linear layer -> the function of model.py that makes it."""
        return {name: ADAPTED if name in self.layers else PLAIN for name in projections}


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
    return Adapter(lora.base or "lora", frozenset(layers))


def adapter_parameters(head: Sequence[str]) -> Any:
    """Return the filter of Flax of the parameters that are trained: an adapter, and the layers `head` in full."""
    from flax import nnx  # late: recipes are listed without it

    return nnx.Any(nnx.LoRAParam, *map(nnx.PathContains, head)) if head else nnx.LoRAParam


def adapter_filter(head: Sequence[str]) -> str:
    """Return the same as Python."""
    layers = [f'nnx.PathContains("{name}")' for name in head]
    return f"nnx.Any({', '.join(['nnx.LoRAParam', *layers])})" if head else "nnx.LoRAParam"
