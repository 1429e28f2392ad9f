"""What a class gives: nested as PyTorch nests it, a ModelOutput or another dataclass as a dict."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import fx
from torch.nn.modules.module import register_module_forward_hook
from torch.utils import _pytree as pytree

from redco_new.pytorch.expressions import sequence


@contextmanager
def takes_dataclasses_apart() -> Iterator[None]:
    """Make PyTorch know the dataclasses that parts give meanwhile, by their fields, and from then on."""

    def register(part: Any, arguments: Any, output: Any) -> None:
        for x in pytree.tree_leaves(output):
            if is_dataclass(x) and not isinstance(x, type):
                torch.export.register_dataclass(type(x))
                register(part, arguments, x)

    hook = register_module_forward_hook(register)
    try:
        yield
    finally:
        hook.remove()


def shapes_of(graph: fx.Graph, spec: Any, batch: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return what a program gives: keys of each array in what is nested -> (its shape, with None for the batch, and its dtype)."""
    values: Any = graph.output_node().args[0]
    tree = pytree.tree_unflatten([getattr(x, "meta", {}).get("val") for x in values], spec)
    shapes = {}
    for path, x in pytree.tree_flatten_with_path(tree)[0]:
        if isinstance(x, torch.Tensor):
            keys = tuple(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k))) for k in path)
            rows = None if x.shape[:1] == (batch,) else x.shape[0] if x.ndim else 0
            shapes[keys] = (rows, *x.shape[1:])[: x.ndim], str(x.dtype).removeprefix("torch.")
    return shapes


def nest(spec: Any, items: list[ast.expr]) -> ast.expr:
    """Return Python for a tree of `items`."""
    return _build(pytree.tree_unflatten(items, spec))


def _build(tree: Any) -> ast.expr:
    if isinstance(tree, ast.expr):
        return tree
    if hasattr(tree, "items"):
        keys: list[ast.expr | None] = [ast.Constant(key) for key in tree.keys()]
        return ast.Dict(keys, [_build(x) for x in tree.values()])
    if is_dataclass(tree):
        named = ((x.name, getattr(tree, x.name)) for x in fields(tree))
        return _build({name: x for name, x in named if x is not None})
    if isinstance(tree, list):
        return ast.List([_build(x) for x in tree], ast.Load())
    if isinstance(tree, tuple):
        return sequence([_build(x) for x in tree])
    return ast.Constant(tree)
