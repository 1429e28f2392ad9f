"""Layers of several kinds that come back in one order: their list becomes one of periods, and what stands before and after.

torch.export has each layer's program by itself. Where a list has two kinds and more, those that come back become the parts of a
`Period`, a module of ours, so that the rest of this package finds layers of one program: they are stacked, and run in a loop.
Of Gemma 3's 26 layers, for instance, 6 are printed, which come back 4 times, and 2 after them; of DeepSeek's 61 the first ones, and one.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from torch import fx, nn

from redco_new.pytorch.construct import Instance
from redco_new.pytorch.graph import Traced, rename_targets
from redco_new.pytorch.layers import may_stack
from redco_new.pytorch.paths import upwards
from redco_new.pytorch.structures import Structures
from redco_new.pytorch.ties import tied_names

FEW = 2  # periods of layers that stand for all
Part = TypeVar("Part", bound=nn.Module)


@dataclass(frozen=True)
class Order:
    """How a list is taken apart: `before` layers, `times` periods of `length` layers, and the others after them.

    path: of the list
    """

    path: str
    before: int
    length: int
    times: int
    after: int

    @property
    def few(self) -> Order:
        """The same, of so few periods that fewer would be others: what stands before them may be periods too."""
        return replace(self, times=max(FEW, (self.before - 1) // self.length + 2))

    @property
    def least(self) -> int:
        """How many layers there are in it that are not after the few periods."""
        return self.before + self.few.times * self.length

    def place(self, number: int) -> str:
        """Return the path of what was the layer `number` of the list."""
        above, _, name = self.path.rpartition(".")
        own = f"{above}.{{}}".lstrip(".")
        inner = number - self.before
        if inner < 0:
            return f"{own.format(f'first_{name}')}.{number}"
        period, place = divmod(inner, self.length)
        if period >= self.times:
            return f"{own.format(f'last_{name}')}.{inner - self.times * self.length}"
        return f"{self.path}.{period}" + (f".{name}.{place}" if self.length > 1 else "")

    def first_and_step(self, number: int) -> tuple[int, int]:
        """Return the number of the first layer of those that are one with `number` where their list is stacked, and how many are from one to the next."""
        inner, end = number - self.before, self.times * self.length
        if 0 <= inner < end:
            return self.before + inner % self.length, self.length
        return (0 if inner < 0 else self.before + end), 1


@dataclass(frozen=True)
class Call:
    """The call of a layer, and which of its arguments is what the layer before gives; None where that is not clear."""

    node: fx.Node
    carried: int | None


class Period(nn.Module):
    """Layers that follow each other, and come back in this order."""

    def forward(self, x: Any, *others: Any) -> Any:
        raise NotImplementedError  # its program is a graph


def class_of_program(base: type[Part], name: str, argument: str, text: str) -> type[Part]:
    """Return a class of parts whose program is a graph. argument: what it calls its first input; text: its docstring"""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def forward(self: Any, *args: Any) -> Any:
        raise NotImplementedError

    names = [inspect.Parameter(x, kind) for x in ("self", argument)]
    forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    return type(name, (base,), {"forward": forward, "__doc__": text})


def in_periods(instance: Instance, traced: Traced) -> tuple[Instance, Traced]:
    """Return a class and its program, of which the lists that have periods are lists of these. It is changed in place."""
    for order, calls in [*_orders(traced)]:
        instance, traced = _apply(order, calls, instance, traced)
    return instance, traced


def order_of(orders: Sequence[Order], path: str) -> Order | None:
    """Return how the list at a path was taken apart; None where it was not."""
    return next((order for order in orders if order.path == path), None)


def new_path(orders: Sequence[Order], path: str) -> str:
    """Return where a part or a parameter of a class is, once its lists are those of periods."""
    for order in orders:
        if path.startswith(f"{order.path}."):
            number, dot, rest = path.removeprefix(f"{order.path}.").partition(".")
            number, at, call = number.partition("@")
            return f"{order.place(int(number))}{at}{call}{dot}{rest}"
    return path


def _orders(traced: Traced) -> Iterator[tuple[Order, list[Call]]]:
    """Yield how lists are taken apart, and the calls of their layers."""
    same = Structures(traced.module, traced.graphs, numbers=True)
    for path, part in traced.module.named_modules():
        above, _, name = path.rpartition(".")
        if not isinstance(part, nn.ModuleList) or any(x.isdigit() for x in path.split(".")):
            continue
        owner = next((x for x in upwards(above) if x in traced.graphs), "")
        below = path.removeprefix(f"{owner}.") if owner else path
        start, calls = _calls_in_turn(traced.graphs[owner], below, len(part))
        paths = [f"{path}.{i}" for i in range(len(part))]
        holder = traced.module.get_submodule(above)
        there = any(hasattr(holder, f"{x}_{name}") for x in ("first", "last"))
        if not calls or there or not may_stack(traced.module, paths):
            continue
        kinds = [
            (type(x), same.of(path), shapes_of(x)) for x, path in zip(part, paths, strict=True)
        ]
        carried = [*[None] * start, *_carried(calls[start:], kinds[start:])]
        rows = zip(kinds, calls, carried, strict=True)
        keys = [(kind, _without(call.args, i)) for kind, call, i in rows]
        if periods := shortest([*range(start), *keys[start:]]):
            before, length, times = periods
            order = Order(path, before, length, times, len(part) - before - length * times)
            yield order, [Call(*one) for one in zip(calls, carried, strict=True)]


def shortest(keys: Sequence[Hashable]) -> tuple[int, int, int] | None:
    """Return (before, length, times) of the periods by which the fewest layers are written out; None where there are none, or all are of one kind."""
    count, best = len(keys), None
    least = count
    for length in range(1, count // 2 + 1):
        for before in range(count - 2 * length + 1):
            times = 1
            end = before + length
            while keys[end : end + length] == keys[before : before + length]:
                times, end = times + 1, end + length
            written = count - (times - 1) * length
            if times > 1 and written < least:
                best, least = (before, length, times), written
    return best if best != (0, 1, count) else None


def _calls_in_turn(graph: fx.Graph, below: str, count: int) -> tuple[int, list[fx.Node]]:
    """Return the calls of a list's layers where each is called once, and the number of the one from which on each is called on what the one before gives; else []."""
    calls = [
        n for n in graph.nodes if n.op == "call_module" and str(n.target).startswith(f"{below}.")
    ]
    if count < 2 or [n.target for n in calls] != [f"{below}.{i}" for i in range(count)]:
        return 0, []
    start = 0
    for number, (before, call) in enumerate(pairwise(calls), 1):
        if list(before.users) != [call] or call.args.count(before) != 1 or call.kwargs:
            start = number
    return (start, calls) if start < count - 1 else (0, [])


def _carried(calls: Sequence[fx.Node], kinds: Sequence[Hashable]) -> list[int | None]:
    """Return which argument of each call is what the layer before gives: of the first one, as of another of its kind."""
    places = [None, *(call.args.index(before) for before, call in pairwise(calls))]
    if kinds[0] in kinds[1:]:
        places[0] = places[kinds.index(kinds[0], 1)]
    return places


def _without(arguments: Sequence[Any], place: int | None) -> tuple[Any, ...]:
    return tuple(x for i, x in enumerate(arguments) if i != place)


def shapes_of(part: nn.Module) -> tuple[Hashable, ...]:
    """Return the names and shapes of what a part holds."""
    named = [*part.named_parameters(), *part.named_buffers()]
    return tuple((name, tuple(x.shape), x.dtype) for name, x in named)


def _apply(
    order: Order, calls: Sequence[Call], instance: Instance, traced: Traced
) -> tuple[Instance, Traced]:
    above, _, name = order.path.rpartition(".")
    holder = traced.module.get_submodule(above)
    layers: list[nn.Module] = [*holder.get_submodule(name).children()]
    end = order.before + order.times * order.length
    periods = layers[order.before : end]
    if order.length > 1:
        kind = _period_class(type(periods[0]), order)
        grouped = (periods[i : i + order.length] for i in range(0, len(periods), order.length))
        periods = [_filled(kind(), name, some) for some in grouped]
    lists = {f"first_{name}": layers[: order.before], name: periods, f"last_{name}": layers[end:]}
    for key, part in [*holder._modules.items()]:  # they stand where the one was
        del holder._modules[key]
        own = {k: nn.ModuleList(x) for k, x in lists.items() if x}
        holder._modules |= own if key == name else {key: part}
    tied_names.cache_clear()
    renamed = {new_path([order], path): values for path, values in instance.arguments.items()}
    graphs = {new_path([order], path): graph for path, graph in traced.graphs.items()}
    for path, graph in traced.graphs.items():
        rename_targets(path, graph, partial(new_path, [order]))
    if order.length > 1:
        for i in range(order.times):
            start = order.before + i * order.length
            of_one = calls[start : start + order.length]
            graphs[f"{order.path}.{i}"] = _fold(of_one, name)
            inner = [renamed.get(f"{order.path}.{i}.{name}.{j}", {}) for j in range(order.length)]
            renamed[f"{order.path}.{i}"] = _in_common(inner)
    draws = {new_path([order], path): draw for path, draw in instance.draws.items()}
    traced = replace(traced, graphs=graphs, orders=(*traced.orders, order))
    return replace(instance, arguments=renamed, draws=draws), traced


def _period_class(layer: type[nn.Module], order: Order) -> type[Period]:
    """Return the class of periods of a list: it is called as its first layer is, in the plural."""
    first = [*inspect.signature(layer.forward).parameters][1]
    name = f"{layer.__name__}s" if not layer.__name__.endswith("s") else f"{layer.__name__}InTurn"
    text = f"{order.length} layers that follow each other, and come back in this order."
    return class_of_program(Period, name, first, text)


def _filled(period: Period, name: str, layers: Sequence[nn.Module]) -> Period:
    setattr(period, name, nn.ModuleList(layers))
    return period


def _fold(calls: Sequence[Call], name: str) -> fx.Graph:
    """Put one call of a period in the place of the calls of its layers; return the program of the period."""
    graph, copies = fx.Graph(), dict[Any, fx.Node]()
    every = [_without(call.node.args, call.carried) for call in calls]
    others = dict.fromkeys(x for row in every for x in row if isinstance(x, fx.Node))
    first, last = calls[0], calls[-1].node
    inputs: list[Any] = [first.node.args[first.carried or 0], *others]
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for j, call in enumerate(calls):
        new = graph.call_module(f"{name}.{j}", fx.node.map_arg(call.node.args, copies.__getitem__))
        new.meta, copies[call.node] = dict(call.node.meta), new
    graph.output(copies[last])
    with last.graph.inserting_before(last):
        target = str(last.target).rpartition(f".{name}.")[0]
        whole = last.graph.call_module(target, tuple(inputs))
    whole.meta = dict(last.meta)
    last.replace_all_uses_with(whole)
    for call in reversed(calls):
        call.node.graph.erase_node(call.node)
    return graph


def _in_common(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arguments that all layers of a period were made with."""
    return {
        key: value
        for key, value in rows[0].items()
        if all(key in row and (row[key] is value or _equal(row[key], value)) for row in rows)
    }


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and isinstance(one, int | float | str | bool) and one == other
