"""What a class gives: nested as PyTorch nests it, a ModelOutput as a dict."""

from __future__ import annotations

import ast
from typing import Any

from torch.utils import _pytree as pytree

from redco_new.pytorch.expressions import sequence


def nest(spec: Any, items: list[ast.expr]) -> ast.expr:
    """Return Python for a tree of `items`."""
    return _build(pytree.tree_unflatten(items, spec))


def _build(tree: Any) -> ast.expr:
    if isinstance(tree, ast.expr):
        return tree
    if hasattr(tree, "items"):
        keys: list[ast.expr | None] = [ast.Constant(key) for key in tree.keys()]
        return ast.Dict(keys, [_build(x) for x in tree.values()])
    if isinstance(tree, list):
        return ast.List([_build(x) for x in tree], ast.Load())
    if isinstance(tree, tuple):
        return sequence([_build(x) for x in tree])
    return ast.Constant(tree)
