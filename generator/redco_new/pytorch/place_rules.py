"""Places in arrays: slices, indices, pads and what is put there. Rules as those of rules.py."""

from __future__ import annotations

import ast
from typing import Any

import torch

from redco_new.pytorch.expressions import fill, parse, sequence
from redco_new.pytorch.merge import Default, Node
from redco_new.pytorch.rules import Printer, plain, rule
from redco_new.pytorch.sizes import Number

END = 2**63 - 1  # how PyTorch says: to the end


@rule("slice")
def _slice(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    x, dim = body.value(a["self"]), plain(a["dim"])
    start = None if plain(a["start"]) in (0, None) and _same(a["start"]) else body.value(a["start"])
    stop = None if plain(a["end"]) == END or _none(a["end"]) else body.value(a["end"])
    step = None if plain(a["step"]) == 1 else body.value(a["step"])
    if _reaches_end(a, dim):
        stop = None
    if start is None and stop is None and step is None:
        return x
    return _subscript(x, dim, ast.Slice(start, stop, step), a["self"])


def _reaches_end(a: dict[str, Any], dim: int) -> bool:
    """Return whether a slice ends where its array does."""
    x, end = a["self"], a["end"]
    return isinstance(end, Number) and all(
        stop >= size for stop, size in zip(end.values, x.dims[dim].values, strict=True)
    )


def _same(x: Any) -> bool:
    return not isinstance(x, Number) or len(set(x.values)) == 1


def _none(x: Any) -> bool:
    return x is None or isinstance(x, Default) and x.value is None


@rule("select")
def _select(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    return _subscript(body.value(a["self"]), plain(a["dim"]), body.value(a["index"]), a["self"])


def _subscript(x: ast.expr, dim: int, index: ast.expr, array: Node) -> ast.expr:
    """Return x with an index in one dim: x[:, index], or x[..., index] of the last."""
    assert array.dims is not None
    rank = len(array.dims)
    before = [ast.Slice() for _ in range(dim % rank)]
    items: list[ast.expr] = [*before, index]
    if dim % rank == rank - 1 and rank > 1:
        items = [ast.Constant(...), index]
    return ast.Subscript(x, items[0] if len(items) == 1 else sequence(items), ast.Load())


@rule("unfold")
def _windows(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return the windows of one dim, their places in a dim of its own, the last."""
    x, dim = a["self"], plain(a["dimension"]) % len(a["self"].dims)
    parts = {name: body.value(a[name]) for name in ("size", "step")} | {"x": body.value(x)}
    parts |= {"n": body.value(x.dims[dim]), "dim": ast.Constant(dim)}
    first = (
        "jnp.arange(n - size + 1)" if plain(a["step"]) == 1 else "jnp.arange(0, n - size + 1, step)"
    )
    windows = fill(f"jnp.take(x, {first}[:, None] + jnp.arange(size), axis=dim)", **parts)
    if dim == len(x.dims) - 1:
        return windows
    return fill(f"jnp.moveaxis(x, {dim + 1}, -1)", x=windows)


@rule("unsqueeze")
def _unsqueeze(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return x[:, None]; of one that was so before, x[:, None, None]."""
    x, dim, rank = body.value(a["self"]), plain(a["dim"]), len(a["self"].dims)
    dim = dim % (rank + 1)
    items: list[ast.expr] = []
    if isinstance(x, ast.Subscript) and all(map(_is_new_or_whole, _items(x.slice))):
        items = _items(x.slice)
        x = x.value
    items += [ast.Slice() for _ in range(dim - len(items))]
    items.insert(dim, ast.Constant(None))
    index = items[0] if len(items) == 1 else sequence(items)
    return ast.Subscript(x, index, ast.Load())


def _items(index: ast.expr) -> list[ast.expr]:
    return list(index.elts) if isinstance(index, ast.Tuple) else [index]


def _is_new_or_whole(x: ast.expr) -> bool:
    if isinstance(x, ast.Slice):
        return not (x.lower or x.upper or x.step)
    return isinstance(x, ast.Constant) and x.value is None


@rule("index")
def _index(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    items = [ast.Slice() if x is None else body.value(x) for x in a["indices"]]
    index = items[0] if len(items) == 1 else sequence(items)
    return ast.Subscript(body.value(a["self"]), index, ast.Load())


@rule("slice_scatter")
def _put_slice(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    place = _slice(body, {**a, "self": a["self"]}, node)
    if not isinstance(place, ast.Subscript):
        return body.value(a["src"])
    parts = {"x": body.value(a["self"]), "y": body.value(a["src"])}
    at = fill("x.at", x=parts["x"])
    return fill("place.set(y)", place=ast.Subscript(at, place.slice, ast.Load()), y=parts["y"])


@rule("select_scatter")
def _put_one(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    place = _select(body, a, node)
    assert isinstance(place, ast.Subscript)
    at = fill("x.at", x=body.value(a["self"]))
    whole = ast.Subscript(at, place.slice, ast.Load())
    return fill("place.set(y)", place=whole, y=body.value(a["src"]))


def _one_mask(indices: list[Any]) -> Node | None:
    """Return the array of truths by which places are chosen, where it is all that chooses: how many they are, no shape follows from."""
    only = indices[0] if len(indices) == 1 else None
    return only if isinstance(only, Node) and only.dtype == torch.bool and only.dims else None


@rule("index_put", "index_copy", "index_add", "index_fill")
def _put_many(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return an array with others at some of its places, or added there."""
    if plain(a.get("alpha", 1)) != 1:
        raise NotImplementedError("alpha")
    added = node.target.startswith("index_add") or plain(a.get("accumulate", False))
    y = next(a[name] for name in ("values", "source", "value") if name in a)
    at = fill("x.at", x=body.value(a["self"]))
    mask = _one_mask(a["indices"]) if "indices" in a and not added and y.dims == () else None
    if mask is not None and mask.dims:
        rest = [ast.Constant(None)] * (len(a["self"].dims) - len(mask.dims))
        parts = {"mask": body.value(mask), "x": body.value(a["self"]), "y": body.value(y)}
        if rest:
            dims = sequence([ast.Constant(...), *rest])
            parts["mask"] = ast.Subscript(parts["mask"], dims, ast.Load())
        return fill("jnp.where(mask, y, x)", **parts)
    if "indices" in a:
        items = [ast.Slice() if x is None else body.value(x) for x in a["indices"]]
        index = items[0] if len(items) == 1 else sequence(items)
        place: ast.expr = ast.Subscript(at, index, ast.Load())
    else:
        place = _subscript(at, plain(a["dim"]), body.value(a["index"]), a["self"])
    text = "place.add(y)" if added else "place.set(y)"
    return fill(text, place=place, y=body.value(y))


@rule("scatter_add")
def _add_along(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    body.use("from redco_runtime.nn.places import add_along")
    names = {"x": "self", "index": "index", "y": "src", "dim": "dim"}
    return fill("add_along(x, index, y, dim)", **{k: body.value(a[v]) for k, v in names.items()})


@rule("constant_pad_nd", "pad")
def _pad(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    sizes = a["pad"]
    pairs = [sizes[i : i + 2] for i in range(0, len(sizes), 2)][::-1]
    rank = len(a["self"].dims)
    x, pairs = _cut(body.value(a["self"]), rank - len(pairs), pairs)
    if not any(max(n.values) for pair in pairs for n in pair):
        return x
    whole: list[ast.expr] = [parse("(0, 0)") for _ in range(rank - len(pairs))]
    whole += [sequence([body.value(x) for x in pair]) for pair in pairs]
    value = a["value"].value if isinstance(a.get("value"), Default) else a.get("value")
    mode = PADS[plain(a.get("mode")) or "constant"]
    text = "jnp.pad(x, pads"
    if mode:
        text += f", mode={mode!r}"
    elif plain(value) not in (0, None):
        text += ", constant_values=value"
    return fill(f"{text})", pads=sequence(whole), x=x, value=body.value(value))


def _cut(x: ast.expr, before: int, pairs: list[Any]) -> tuple[ast.expr, list[Any]]:
    """Return an array without what negative pads cut off, and the others. before: dims that have none"""
    cuts = [tuple(min(0, min(n.values)) for n in pair) for pair in pairs]
    if not any(map(any, cuts)):
        return x, pairs
    if any(min(n.values) < 0 and len({*n.values}) > 1 for pair in pairs for n in pair):
        raise NotImplementedError("a pad that is negative, and follows from sizes")
    places = [":"] * before + [f"{-a or ''}:{b or ''}" for a, b in cuts]
    while places[-1] == ":":
        places.pop()
    left = [[Number(tuple(max(0, v) for v in n.values)) for n in pair] for pair in pairs]
    return fill(f"x[{', '.join(places)}]", x=x), left


# Modes of padding in PyTorch -> in NumPy; "" for a constant.
PADS = {"constant": "", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
