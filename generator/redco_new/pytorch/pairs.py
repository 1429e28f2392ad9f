"""Encoder-decoders: the program of the encoder apart from that of the decoder, as recipes call them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from redco_new.pytorch.layers import swap
from redco_new.pytorch.merge import Node, walk
from redco_new.pytorch.texts import HIDDEN
from redco_new.pytorch.transformers_classes import find_encoder

Program = list[Node]


def split_at_encoder(module: Any, nodes: Sequence[Node]) -> tuple[Program, Program] | None:
    """Return the program of the hidden states of sources, and that of what is made of these; None where it is no such two."""
    encoder = find_encoder(module)
    name = next((path for path, part in module.named_modules() if part is encoder), "")
    x = next((node for node in nodes if node.kind == "module" and node.target == name), None)
    if x is None or x.dims is None or len(x.dims) != 3:
        return None
    before = _sources(x)
    rest = [node for node in nodes if node not in before]
    read = [y for node in rest for y in walk(node.arguments) if y in before and y is not x]
    shared = [node for node in nodes if node in read]
    if any(node.kind not in ("input", "parameter") for node in shared):
        return None
    entry = Node("input", HIDDEN, {}, x.dims, x.dtype, x.statement, x.place)
    copies = {node: replace(node) for node in shared} | {x: entry}
    for node in rest:
        for old, new in copies.items():
            node.arguments = swap(node.arguments, old, new)
    end = Node("output", "output", {"0": x}, None, None, x.statement, x.place)
    first = [node for node in nodes if node in before]
    return _linked([*first, end]), _linked([*copies.values(), *rest])


def _sources(node: Node) -> set[Node]:
    """Return a node and all that it is made of."""
    sources, left = {node}, [node]
    while left:
        new = [x for x in walk(left.pop().arguments) if x not in sources]
        sources |= {*new}
        left += new
    return sources


def _linked(nodes: Collection[Node]) -> Program:
    """Return a program whose nodes know who reads them in it, without inputs that none does; hidden states come first."""
    for node in nodes:
        node.users = []
    for node in nodes:
        for x in walk(node.arguments):
            x.users.append(node)
    read = [node for node in nodes if node.kind != "input" or node.users]
    return sorted(read, key=lambda node: node.target != HIDDEN)
