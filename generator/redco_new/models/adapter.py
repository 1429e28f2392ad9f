"""Which linear layers of a model have an adapter, as --lora asks for it, and what is trained then."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from redco_new.errors import RedcoError
from redco_new.models.family import Family
from redco_new.render.execute import load_weights
from redco_new.render.python import print_call, print_data
from redco_new.request import Lora

NUMBER = re.compile(r"\.\d+\.")  # in the name of a tensor: of a part that is stacked with no others
# The order in which an adapter names layers: that of the computation.
USUAL = ("q", "k", "v", "qkv", "o", "gate", "up", "down")


@dataclass(frozen=True)
class Adapter:
    """An adapter, and the frozen model that it is beside.

    lora: what is asked for.
    layers: the linear layers that have one, by their names in model.py.
    whole: the layers of the model itself that are trained in full.
    experts: the kernels of experts that have one.
    """

    lora: Lora
    layers: tuple[str, ...]
    whole: tuple[str, ...] = ()
    experts: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        """The class of the section `lora` of config.py, of the runtime."""
        return "QLora" if self.lora.base else "Lora"

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of that section that say what is asked for."""
        lora = self.lora
        sizes = {"lora_rank": lora.rank, "lora_alpha": lora.alpha}
        others = {"lora_dropout": lora.dropout, "use_rslora": lora.rslora}
        return sizes | {name: value for name, value in others.items() if value}

    @property
    def tiny(self) -> dict[str, dict[str, Any]]:
        """The section of the preset tiny, {} where it is no other: blocks divide over devices where larger matrices' do."""
        return {"lora": self.settings | {"lora_block": 4}} if self.lora.base else {}

    @property
    def section(self) -> str:
        """Python that makes its default."""
        return print_call(self.class_name, self.settings)

    @property
    def options(self) -> dict[str, Any]:
        """The further arguments of `with_lora`."""
        values = {"base": self.lora.base, "dora": self.lora.dora, "trained": self.whole}
        return {name: value for name, value in values.items() if value}

    @property
    def call(self) -> str:
        """Python of these arguments."""
        return "".join(f"{name}={print_data(value)}, " for name, value in self.options.items())

    @property
    def result(self) -> str:
        """How steps.py takes what `with_lora` returns."""
        return "model =" if self.experts else "return"

    @property
    def start(self) -> str:
        """The module of checkpoints.lora by which a new run reads its model."""
        return "expert_start" if self.experts else "start"

    def put(self, model: Any, rngs: Any, settings: Any = None) -> Any:
        """Return a model of Flax with it, as steps.py has it. settings: the section `lora`, where it is there."""
        # Late: load_text makes the runtime importable.
        from redco_runtime.nn.adapters.layers import with_lora

        # A project, whose runtime it may be, has one of the two.
        module = import_module(f"redco_runtime.checkpoints.lora.{self.class_name.lower()}")
        own = settings or getattr(module, self.class_name)(**self.settings)
        model = with_lora(model, own, self.layers, **self.options, rngs=rngs)
        if not self.experts:
            return model
        # Carried with these alone.
        from redco_runtime.nn.adapters.expert_kernels import with_expert_lora

        return with_expert_lora(model, own, self.experts, rngs=rngs)


def linear_layers(tensors: Mapping[str, str]) -> dict[str, str]:
    """Return the linear layers that --lora can adapt, by their names in model.py -> in checkpoints.

    Those that a layer of the model has one of, but for a router: it has no part in what a token becomes.
    tensors: path of a parameter in model.py -> what a checkpoint calls its tensor, as weights.py has it.
    """
    names = {
        path.split("/")[-2]: name.split(".")[-2]
        for path, name in tensors.items()
        if path.endswith("/kernel") and _is_of_layer(name)
    }
    names.pop("router", None)
    usual = {name: place for place, name in enumerate(USUAL)}
    return dict(sorted(names.items(), key=lambda item: usual.get(item[0], len(usual))))


def expert_kernels(tensors: Mapping[str, str]) -> dict[str, str]:
    """Return the kernels of experts, each a layer of many, as `linear_layers` returns layers."""
    linear = linear_layers(tensors)
    names = {
        path.split("/")[-2]: name.split(".")[-2]
        for path, name in tensors.items()
        if path.endswith("/kernel") and name.count("{}") > 1
    }
    return {name: theirs for name, theirs in names.items() if name not in linear}


def _is_of_layer(name: str) -> bool:
    """Return whether a tensor is of one layer, by its name, and not of an expert in one."""
    before, stacked, after = name.partition("{}")
    if stacked:
        return "{}" not in after and not NUMBER.search(before)
    return bool(NUMBER.search(name))


def family_tensors(family: Family, package: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the `tensors` of `linear_layers`; package, texts: of "model.py" and "weights.py", as Model.print_files has them."""
    model, weights = load_weights(package, texts)
    table = weights.tensors(getattr(model, family.config_class)())
    return {path: tensor.name for path, tensor in table.items()}


def choose_adapter(
    linear: Mapping[str, str],
    lora: Lora,
    model: str,
    whole: Sequence[str] = (),
    experts: Mapping[str, str] | None = None,
) -> Adapter:
    """Return the adapter that --lora asks for. Raises RedcoError, which names the layers there are.

    linear: of the model, which --model calls `model`, as `linear_layers` has them. whole: its layers that are
        trained in full. experts: as `expert_kernels` has them.
    """
    layers, experts = set[str](), experts or {}
    every = {**linear, **experts}
    for target in lora.targets or linear:
        named = {ours for ours, theirs in every.items() if target in (ours, theirs)}
        if not named:
            names = dict.fromkeys((*every, *every.values()))
            what = f"{model} has no linear layer {target!r}"
            raise RedcoError("--lora: targets", what, f"choose some of {', '.join(names)}")
        layers |= named
    if layers & experts.keys():
        _check_experts(lora, layers, experts)
    return Adapter(
        lora,
        layers=tuple(name for name in linear if name in layers),
        whole=tuple(whole),
        experts=tuple(name for name in experts if name in layers),
    )


def _check_experts(lora: Lora, layers: set[str], experts: Mapping[str, str]) -> None:
    """Raise RedcoError for an adapter of experts that PEFT would not load, or load as another."""
    if absent := [name for name in experts if name not in layers]:
        what = f"PEFT has the kernels of an expert as one, and {', '.join(absent)} {'are' if absent[1:] else 'is'} not named"
        raise RedcoError("--lora: targets", what, f"name all of {', '.join(experts)}, or none")
    if own := [name for name in ("dropout", "rslora", "dora") if getattr(lora, name)]:
        what = f"PEFT has no {own[0]} for the kernels of experts"
        raise RedcoError("--lora", what, f"leave {own[0]} out, or the targets {', '.join(experts)}")


def adapter_parameters(whole: Sequence[str]) -> Any:
    """Return the filter of Flax of the parameters that are trained: an adapter, and the layers `whole` in full."""
    from flax import nnx  # late: recipes are listed without it

    return nnx.Any(nnx.LoRAParam, *map(nnx.PathContains, whole)) if whole else nnx.LoRAParam


def adapter_filter(whole: Sequence[str]) -> str:
    """Return the same as Python."""
    layers = [f'nnx.PathContains("{name}")' for name in whole]
    return f"nnx.Any({', '.join(['nnx.LoRAParam', *layers])})" if whole else "nnx.LoRAParam"
