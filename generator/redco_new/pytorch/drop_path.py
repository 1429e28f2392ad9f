"""Whole examples, or channels, that are dropped, as layers of images do: a dropout of ones, one for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isclose
from typing import Any, cast

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from redco_new.pytorch.unread import CASTS, drop_unread, operation

aten = torch.ops.aten
DRAWING = ("rand", "rand_like", "uniform_", "bernoulli", "bernoulli_")
# What fills an array with what it draws -> what draws one, and between which numbers where it does not say: of normal_ mean and deviation.
FILLED = {
    aten.uniform.default: (aten.rand.default, 0.0, 1.0),
    aten.normal_functional.default: (aten.randn.default, 0.0, 1.0),
}


def join_drops(graph: fx.Graph) -> None:
    """Put a dropout of ones where a program divides by a share, and multiplies by a mask that is 1 as often: in evaluation its author gives x as it is."""
    _draw_anew(graph)
    for node in list(graph.nodes):
        factor, share, drawn = _dropped(node)
        if drawn is None:
            continue
        product = _dropout(graph, node, drawn, share)
        if factor is not None:
            with graph.inserting_before(node):
                product = graph.call_function(aten.mul.Tensor, (factor, product))
            product.meta = dict(node.meta)
        node.replace_all_uses_with(product)
        graph.erase_node(node)
    drop_unread(graph)


def _draw_anew(graph: fx.Graph) -> None:
    """Put an array that is drawn, between the same numbers, where a program fills one with what it draws."""
    for node in list(graph.nodes):
        if node.target not in FILLED:
            continue
        draw, *usual = FILLED[node.target]
        numbers: list[Any] = [*node.args[1:], *usual[len(node.args) - 1 :]]
        low, high = numbers
        width = high - low if draw == aten.rand.default else high
        with graph.inserting_before(node):
            drawn = graph.call_function(draw, (list(node.meta["val"].shape),))
            steps = [drawn]
            if width != 1:
                steps.append(graph.call_function(aten.mul.Tensor, (steps[-1], width)))
            if low != 0:
                steps.append(graph.call_function(aten.add.Tensor, (steps[-1], low)))
        for step in steps:
            step.meta = dict(node.meta)
        node.replace_all_uses_with(steps[-1])
        graph.erase_node(node)


def _dropped(node: fx.Node) -> tuple[fx.Node | None, float, fx.Node | None]:
    """Return x, the share of it that is kept, and what is drawn for it, of x / share * mask; no x of mask / share; nothing drawn of all else."""
    arguments: Any = node.args
    if node.target in (aten.div.Tensor, aten.div.Scalar) and isinstance(arguments[1], float):
        whole, share = arguments
        if (mask := _mask(whole)) and isclose(mask[0], share):
            return None, share, mask[1]
        if _is(whole, aten.mul.Tensor):
            for x, other in (whole.args, whole.args[::-1]):
                if (mask := _mask(other)) and isclose(mask[0], share):
                    return x, share, mask[1]
    elif node.target == aten.mul.Tensor:
        for whole, other in (arguments, arguments[::-1]):
            mask = _mask(other) if _is(whole, aten.div.Tensor) else None
            if mask and isinstance(whole.args[1], float) and isclose(mask[0], whole.args[1]):
                return whole.args[0], mask[0], mask[1]
    return None, 0.0, None


def _mask(node: Any) -> tuple[float, fx.Node] | None:
    """Return how often a mask is 1, and what is drawn for it; None of what is no mask: floor(share + rand), rand < share, rand > 1 - share, bernoulli(share)."""
    while isinstance(node, fx.Node) and operation(node) in CASTS:
        node = cast(Any, node.args[0])
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return None
    arguments: list[Any] = [*node.args, None]
    name, (one, *others) = operation(node), arguments
    if name == "bernoulli" and isinstance(others[0], float):
        return others[0], node
    if name == "floor" and _is(one, aten.add.Tensor):
        name, (one, *others) = "lt", one.args
    if not (isinstance(one, fx.Node) and operation(one) in ("rand", "rand_like")):
        return None
    if name in ("lt", "le", "gt", "ge") and isinstance(others[0], float):
        return others[0] if name in ("lt", "le") else 1 - others[0], one
    return None


def _dropout(graph: fx.Graph, node: fx.Node, drawn: fx.Node, share: float) -> fx.Node:
    """Return a dropout of ones, before a node. drawn: of their shape. share: of them that is kept"""
    with graph.inserting_before(node):
        shape, dtype = list(drawn.meta["val"].shape), node.meta["val"].dtype
        ones = graph.call_function(aten.ones.default, (shape,), {"dtype": dtype})
        rate = round(1 - share, 12)
        dropped = graph.call_function(aten.native_dropout.default, (ones, rate, True))
    ones.meta = dropped.meta = {**node.meta, "val": drawn.meta["val"]}
    return dropped


def _is(node: Any, target: Any) -> bool:
    return isinstance(node, fx.Node) and node.target == target


class _Draws(TorchFunctionMode):
    """Note whether something is drawn."""

    drawn = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives."""
        self.drawn |= getattr(func, "__name__", "") in DRAWING
        return func(*args, **(kwargs or {}))


def _drops(part: nn.Module) -> bool:
    """Return whether a part draws in training, and gives in evaluation what it is given."""
    if any(True for _ in (*part.children(), *part.parameters(), *part.buffers())):
        return False
    training, x = part.training, torch.ones(2, 3)
    try:
        with _Draws() as draws:
            part.train()(x)
        return draws.drawn and part.eval()(x) is x
    except Exception:  # of other inputs
        return False
    finally:
        part.train(training)


@contextmanager
def without_drops(module: nn.Module) -> Iterator[None]:
    """Leave the parts of a class that drop examples out: each gives what it is given."""
    droppers = [part for part in module.modules() if _drops(part)]
    hooks = [part.register_forward_hook(lambda _, inputs, result: inputs[0]) for part in droppers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
