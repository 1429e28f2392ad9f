"""Decoders of texts: hidden states and logits apart, as recipes call them, and what their layers attend by, handed on."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx, nn

from redco_new.pytorch.attention import Call, calls_in, is_attention
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.layers import Count, swap
from redco_new.pytorch.merge import Node, walk
from redco_new.pytorch.transformers_classes import IDS, MASK, POSITIONS

HIDDEN = "x_BSD"  # the input of `logits`
DECODED = "y_BTD"  # the same of an encoder-decoder
# What they are called in model.py.
NAMES = {IDS: "input_ids_BS", MASK: "attend", POSITIONS: "positions_BS"}


@dataclass(frozen=True)
class TextMethods:
    """What model.py has of a decoder, besides the statements that compute its hidden states.

    inputs: of these statements, of NAMES
    logits: the statements of `logits`
    cache: arguments of `empty_cache`, as Python; "" where each text is computed anew
    packs: whether texts may share a row, where layers are told what they attend by
    longest: the field of the config that no text is longer than, by `first` positions; "" for none
    first: the position of a text's first token
    """

    inputs: tuple[str, ...]
    logits: Sequence[ast.stmt]
    cache: str = ""
    packs: bool = True
    longest: str = ""
    first: int = 0

    def ways(self) -> list[TextMethods]:
        """Return these, without a cache, and for rows of one text each: of classes that mix positions otherwise than by attention."""
        anew = self if not self.cache else replace(self, cache="")
        if not self.shares:
            return [anew]
        return [self] * bool(self.cache) + [anew, replace(anew, packs=False)]

    @property
    def imports(self) -> set[str]:
        """The import lines that these methods need."""
        lines = {"from redco_runtime.nn.attention import text_positions"} if self.places else set()
        if self.attends:
            names = ("ToTexts", "ToCache", "empty_cache") if self.cache else ("ToTexts",)
            lines |= {f"from redco_runtime.nn.attend import {name}" for name in names}
        if not self.cache:
            lines |= {
                f"from redco_runtime.nn.anew import {x}" for x in ("decode_anew", "empty_texts")
            }
        if not self.shares:
            lines.add("from redco_runtime.base.messages import UserError")
        return lines

    @property
    def places(self) -> bool:
        """Whether positions are among the inputs."""
        return NAMES[POSITIONS] in self.inputs

    @property
    def attends(self) -> bool:
        """Whether what layers attend by is among the inputs."""
        return NAMES[MASK] in self.inputs

    @property
    def shares(self) -> bool:
        """Whether texts share a row, each with positions from 0 on."""
        return self.packs and self.attends


def follow_attention(graphs: Mapping[str, fx.Graph], name: str = MASK) -> bool:
    """Find where an input of the whole is handed on, and write that there; return whether attention alone reads it."""
    pure, left = True, [("", name)]
    while left:
        path, input_name = left.pop()
        for node in graphs[path].nodes:
            if node.op == "placeholder" and node.name == input_name:
                node.meta["attend"] = True
                break
        else:
            continue
        for user in node.users:
            if user.op == "call_module":
                below = f"{path}.{user.target}".removeprefix(".")
                inputs = [n for n in graphs[below].nodes if n.op == "placeholder"]
                left += [
                    (below, i.name) for i, x in zip(inputs, user.args, strict=True) if x is node
                ]
            elif not is_attention(user):
                pure = False
    return pure


def split_at_head(
    module: Any, nodes: Sequence[Node], hidden: str = HIDDEN
) -> tuple[list[Node], list[Node]] | None:
    """Return the program of the hidden states, and that of logits of these; None where it is no such two.

    hidden: what these are called as the input of the latter
    """
    head = _head_name(module)
    place = next((i for i, node in enumerate(nodes) if head and _reads(node, head)), None)
    if place is None:
        return None
    arrays = [x for x in walk(nodes[place].arguments) if x.kind != "parameter"]
    results = [x for x in walk(nodes[-1].arguments)]
    if len(arrays) != 1 or len(results) != 1 or not arrays[0].dims or len(arrays[0].dims) != 3:
        return None
    x = arrays[0]
    after = _after(nodes[place:-1], x)
    if after is None or x.kind == "input":
        return None
    entry = Node("input", hidden, {}, x.dims, x.dtype, x.statement, x.place)
    for node in (*after, nodes[-1]):
        node.arguments = swap(node.arguments, x, entry)
    entry.users = [user for user in x.users if user in after]
    end = Node("output", "output", {"0": x}, None, None, x.statement, x.place)
    x.users = [user for user in x.users if user not in after] + [end]
    before = [node for node in nodes[:-1] if node not in after]
    parameters = [n for n in before if n.kind == "parameter" and set(n.users) <= set(after)]
    shared = [n for n in before if n.kind == "parameter" and set(n.users) & set(after)]
    first = [node for node in before if node not in parameters]
    return [*first, end], [entry, *shared, *after, nodes[-1]]


def _after(nodes: Sequence[Node], x: Node) -> list[Node] | None:
    """Return the nodes of `nodes`, all of which compute with x and parameters alone; None where one does not."""
    ready = {x}
    for node in nodes:
        if not all(y in ready or y.kind == "parameter" for y in walk(node.arguments)):
            return None
        ready.add(node)
    return [*nodes]


def _head_name(module: nn.Module) -> str:
    """Return the name of the part that makes logits of hidden states; "" where transformers names none."""
    get = getattr(module, "get_output_embeddings", None)
    try:
        part = get() if get else None
    except Exception:  # of a class that has none
        return ""
    names = [name for name, other in module.named_modules() if other is part]
    return names[0] if part is not None and names else ""


def _reads(node: Node, head: str) -> bool:
    """Return whether a node is what makes logits: a call of the head, or of a part that has it, or a product with its weight."""
    if node.kind == "module":
        return head == node.target or head.startswith(f"{node.target}.")
    return node.kind == "operation" and any(
        x.kind == "parameter" and x.target == f"{head}.weight" for x in walk(node.arguments)
    )


def attention_calls(
    graphs: Mapping[str, fx.Graph], stacked: Collection[str], lengths: Mapping[str, Count]
) -> str:
    """Return Python of how many times what attends is called; "" where no expression says so.

    stacked: paths of lists whose layers are in a loop. lengths: path of a list -> how many they are.
    """
    once, lists = _calls(graphs, "", stacked)
    terms = []
    for path, calls in lists.items():
        if calls and path not in lengths:
            return ""
        if calls:
            term, more = lengths[path].times(calls)
            terms.append(term)
            once += more
    if once < 0:
        return ""
    return " + ".join(terms + [str(once)] * bool(once)).replace("config.", "c.")


def _calls(
    graphs: Mapping[str, fx.Graph], path: str, stacked: Collection[str]
) -> tuple[int, dict[str, int]]:
    once, lists = 0, dict[str, int]()
    for node in graphs[path].nodes:
        if is_attention(node):
            once += isinstance(Call(*node.args).attend, fx.Node)
        below = f"{path}.{node.target}".removeprefix(".")
        if node.op == "call_module" and below in graphs:
            inner, others = _calls(graphs, below, stacked)
            above, _, number = own_path(below).rpartition(".")
            if above not in stacked:
                once += inner
                lists |= others
            elif number == "0":
                lists[above] = inner
    return once, lists


def attention_heads(graphs: Mapping[str, fx.Graph]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    """Return (heads, size) of the keys and of the values of each attention."""
    shapes: Any = [
        [tuple(x.meta["val"].shape[2:]) for x in (call.k, call.v)] for call in _calls_of(graphs)
    ]
    return {(key, value) for key, value in shapes}


def attention_dtypes(graphs: Mapping[str, fx.Graph]) -> set[torch.dtype]:
    """Return what keys and values of attention are of."""
    return {x.meta["val"].dtype for call in _calls_of(graphs) for x in (call.k, call.v)}


def _calls_of(graphs: Mapping[str, fx.Graph]) -> list[Call]:
    return [call for graph in graphs.values() for call in calls_in(graph)]
