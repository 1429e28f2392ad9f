"""What printing a class of PyTorch gives: the text of model.py, and the facts that a project is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redco_new.request.own_class import Input


@dataclass(frozen=True)
class Field:
    """A field of the printed model's config.

    name: in the config, and on the command line
    argument: of the class's constructor, "config.width" of an object that it is given; for a config class of transformers, its attribute
    annotation: its type, as Python
    value: what the user asked for
    small: what the gate made the class with, and the preset tiny has
    """

    name: str
    argument: str
    annotation: str
    value: Any
    small: Any


@dataclass(frozen=True)
class Stored:
    """How PyTorch stores a parameter or a buffer of the printed model.

    name: in a checkpoint; one {} for each leading dim of the parameter, which is stacked of several layers, or experts
    order: the stored dim that each other dim of the parameter is, as `Tensor.order`; () for the same
    first, step: what stands for {} of the first layer of the stack, and between two
    """

    name: str
    order: tuple[int, ...] = ()
    first: int = 0
    step: int = 1


@dataclass(frozen=True)
class Gate:
    """How far the printed model is from the class in PyTorch: same weights, same inputs.

    Figures are the largest difference over the largest value, of one tensor; 0.0 where none is compared.

    outputs: of all arrays that a call gives
    gradients: of the worst parameter, whose name is `worst`
    buffers: after a step in training mode, dropout off
    dtype: that both computed in: float64 where in float32 rounding decided, as on which side of a ReLU a number is
    rounded: in bfloat16, how many times PyTorch's error there it is; None where the class computes in float32 alone
    """

    outputs: float
    gradients: float
    worst: str
    buffers: float
    dtype: str = "float32"
    rounded: float | None = None


def worst_of(gates: Sequence[Gate]) -> Gate:
    """Return the figures of whichever is the farthest."""
    farthest = max(gates, key=lambda gate: gate.gradients)
    return replace(
        farthest,
        outputs=max(gate.outputs for gate in gates),
        buffers=max(gate.buffers for gate in gates),
        dtype=max(gate.dtype for gate in gates),  # float64 where one needs it
    )


@dataclass(frozen=True)
class HubFacts:
    """What Hugging Face says of a decoder of texts.

    config: keys of config.json, those of the fields too
    prefix: what names of tensors begin with, but for the head's
    """

    config: Mapping[str, Any]
    prefix: str


@dataclass(frozen=True)
class PrintedClass:
    """A class of PyTorch as model.py of a project.

    name: of the PyTorch class
    source: of model.py; imports `redco_runtime`, as templates do
    model_class: of model.py, `model_class(config, rngs=rngs)`, an nnx.Module
    config_class: the frozen dataclass of its fields, all with defaults
    fields: of it, in their order; `dtype`, of the computation, is among the last
    inputs: of `__call__`, by their names there, as a project's pipeline makes them (ids are int32)
    modes: whether it computes otherwise in training (dropout, BatchNorm): train() and eval() tell it
    parameters: path in the model, as "layers/0/kernel" -> how PyTorch stores it
    buffers: the same of what is no parameter and is saved, as BatchNorm's running mean
    tied: other names of the state_dict -> the name of `parameters` that they are
    unread: names of parameters that checkpoints of transformers have in another form
    hub: of a class of which recipes of texts can call `hidden`, `logits`, `init_cache` and `decode`; None for others
    requires: packages that only creation needed, with versions: ("torch 2.13.0",)
    notes: for the user, a line each: what was baked in, what stands apart and why
    gate: what was measured
    """

    name: str
    source: str
    model_class: str
    config_class: str
    fields: tuple[Field, ...]
    inputs: Mapping[str, Input]
    modes: bool
    parameters: Mapping[str, Stored]
    buffers: Mapping[str, Stored]
    tied: Mapping[str, str]
    unread: tuple[str, ...]
    hub: HubFacts | None
    requires: tuple[str, ...]
    notes: tuple[str, ...]
    gate: Gate
