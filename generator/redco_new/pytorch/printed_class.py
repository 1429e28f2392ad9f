"""What the printer of classes starts from, and gives: probes, and the classes of model.py."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import fx

from redco_new.pytorch.construct import Instance
from redco_new.pytorch.graph import Traced
from redco_new.pytorch.kind_methods import KindMethods
from redco_new.pytorch.texts import TextMethods

Made = tuple[Instance, Traced]  # a class, as some sizes make it, and its program


@dataclass(frozen=True)
class Probe:
    """A class, made and traced with some sizes.

    buffers: by their names, how the constructor computes them
    sizes: of the config, as the printed __init__ of the whole has them: "config.width" -> 64
    dims: of the inputs of the whole, by the letters that they have: "S" -> 32
    """

    instance: Instance
    traced: Traced
    sizes: Mapping[str, int | float]
    batch: int
    buffers: Mapping[str, fx.Graph]
    dims: Mapping[str, int]


@dataclass
class Printed:
    """A class of model.py.

    name: there
    arguments: of __init__, which are those of the PyTorch class that are read, in its order
    init, call: statements
    inputs: of __call__
    order: which of the program's inputs each of these is
    sizes: dims of the inputs of the whole that it is told besides, by their letters
    methods: as recipes call them, where `call` computes hidden states, or logits; None where it is the forward
    """

    name: str
    arguments: tuple[str, ...]
    init: list[str]
    call: list[ast.stmt]
    inputs: tuple[str, ...]
    order: tuple[int, ...]
    imports: set[str] = field(default_factory=set)
    docstring: str = ""
    random: bool = False
    is_whole: bool = False
    sizes: tuple[str, ...] = ()
    methods: TextMethods | KindMethods | None = None
