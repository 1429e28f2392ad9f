"""Whole examples, or channels, that are dropped, as layers of images do: a dropout of ones, one for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from redco_new.pytorch.unread import drop_unread

aten = torch.ops.aten


def join_drops(graph: fx.Graph) -> None:
    """Put a dropout of ones where a program has x / share * floor(share + rand): in evaluation its author gives x as it is.

    So too where it has bernoulli(share) / share, as PyTorch drops whole channels.
    """
    for node in list(graph.nodes):
        if node.target == aten.mul.Tensor and (parts := _parts(*node.args)):
            x, share, drawn = parts
            dropped = _dropped(graph, node, drawn, share)
            with graph.inserting_before(node):
                product = graph.call_function(aten.mul.Tensor, (x, dropped))
            product.meta = dict(node.meta)
        elif node.target in (aten.div.Tensor, aten.div.Scalar) and _is(
            node.args[0], aten.bernoulli.p
        ):
            drawn, share = node.args
            if drawn.args[1] != share:
                continue
            product = _dropped(graph, node, drawn, share)
        else:
            continue
        node.replace_all_uses_with(product)
        graph.erase_node(node)
    drop_unread(graph)


def _dropped(graph: fx.Graph, node: fx.Node, drawn: fx.Node, share: float) -> fx.Node:
    """Return a dropout of ones, before a node. drawn: of their shape. share: of them that is kept"""
    with graph.inserting_before(node):
        shape, dtype = list(drawn.meta["val"].shape), node.meta["val"].dtype
        ones = graph.call_function(aten.ones.default, (shape,), {"dtype": dtype})
        rate = round(1 - share, 12)
        dropped = graph.call_function(aten.native_dropout.default, (ones, rate, True))
    ones.meta = dropped.meta = {**node.meta, "val": drawn.meta["val"]}
    return dropped


def _parts(one: Any, other: Any) -> tuple[fx.Node, float, fx.Node] | None:
    """Return x, the share that is kept, and what is drawn for it; None of another product."""
    if not (_is(one, aten.div.Tensor) and _is(other, aten.floor.default)):
        return None
    x, share = one.args
    total = other.args[0]
    if (
        not _is(total, aten.add.Tensor)
        or total.args[1] != share
        or not _is(total.args[0], aten.rand.default)
    ):
        return None
    return x, share, total.args[0]


def _is(node: Any, target: Any) -> bool:
    return isinstance(node, fx.Node) and node.target == target


class _Draws(TorchFunctionMode):
    """Note whether torch.rand is called."""

    drawn = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives."""
        self.drawn |= getattr(func, "__name__", "") == "rand"
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
