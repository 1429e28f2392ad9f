"""Operations of PyTorch in JAX that a text does not say: a function each, of the printed arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Protocol

import torch


from redco_new.pytorch.expressions import fill, parse, sequence
from redco_new.pytorch.merge import Default, Node
from redco_new.pytorch.sizes import Number

END = 2**63 - 1  # how PyTorch says: to the end


class Printer(Protocol):
    """What a rule asks of the body that it prints into."""

    def value(self, x: Any) -> ast.expr:
        """Return an argument as Python."""

    def shape(self, sizes: list[Any], base: Node | None) -> list[ast.expr]:
        """Return sizes of a new shape; at most one is -1, where `base` is reshaped."""

    def use(self, line: str) -> None:
        """Add an import."""

    def drop(self, rate: Number) -> ast.expr:
        """Return Python of a Dropout, which __init__ makes."""


Rule = Callable[[Printer, dict[str, Any], Node], ast.expr]
FUNCTIONS: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator, which makes a function the rule of operations."""

    def register(function: Rule) -> Rule:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


def plain(x: Any) -> Any:
    """Return an argument of which all programs have the same: a number, or a list of such."""
    if isinstance(x, Default):
        return plain(x.value)
    if isinstance(x, list):
        return [plain(item) for item in x]
    if isinstance(x, Number):
        return x.values[0] if len(set(x.values)) == 1 else None
    return x


@rule("view", "reshape", "_unsafe_view")
def _reshape(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    sizes = a["size"] if "size" in a else a["shape"]
    return ast.Call(fill("x.reshape", x=body.value(a["self"])), body.shape(sizes, a["self"]), [])


@rule("expand")
def _expand(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    assert node.dims is not None
    shape = sequence(body.shape(list(node.dims), None))
    return fill("jnp.broadcast_to(x, shape)", x=body.value(a["self"]), shape=shape)


@rule("zeros", "ones", "empty")
def _new(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = "ones" if node.target.startswith("ones") else "zeros"
    shape = sequence(body.shape(a["size"], None))
    return fill(f"jnp.{name}(shape, dtype)", shape=shape, dtype=body.value(node.dtype))


@rule("full", "new_full")
def _full(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    parts = {"shape": sequence(body.shape(a["size"], None)), "dtype": body.value(node.dtype)}
    return fill("jnp.full(shape, x, dtype)", x=body.value(a["fill_value"]), **parts)


@rule("arange")
def _arange(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    names = [name for name in ("start", "end", "step") if name in a]
    if plain(a.get("step", 1)) == 1:
        names = [name for name in names if name != "step"]
    if plain(a.get("start", 0)) == 0 and "step" not in names:
        names = [name for name in names if name != "start"]
    numbers = [body.value(a[name]) for name in names]
    if node.dtype == torch.int64:
        return ast.Call(parse("jnp.arange"), numbers, [])
    return ast.Call(parse("jnp.arange"), numbers, [ast.keyword("dtype", body.value(node.dtype))])


@rule("scalar_tensor")
def _scalar(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    return fill("jnp.asarray(s, dtype)", s=body.value(a["s"]), dtype=body.value(node.dtype))


@rule("_to_copy", "to")
def _cast(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    return fill("x.astype(dtype)", x=body.value(a["self"]), dtype=body.value(node.dtype))


@rule("gelu")
def _gelu(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    exact = plain(a["approximate"]) == "none"
    text = "jax.nn.gelu(x, approximate=False)" if exact else "jax.nn.gelu(x)"
    return fill(text, x=body.value(a["self"]))


@rule("div")
def _divide(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    parts = {"x": body.value(a["self"]), "y": body.value(a["other"])}
    mode = plain(a.get("rounding_mode"))
    return fill({None: "x / y", "floor": "x // y", "trunc": "jnp.trunc(x / y)"}[mode], **parts)


@rule("mean", "sum")
def _total(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = node.target.partition(".")[0]
    x = body.value(a["self"])
    if (
        isinstance(a["self"], Node)
        and a["self"].dtype != node.dtype
        and a["self"].dtype is not None
    ):
        x = fill("x.astype(dtype)", x=x, dtype=body.value(node.dtype))
    parts = {"x": x, "axis": _axis(body, a)}
    text = f"jnp.{name}(x" + (", axis=axis" if plain(a.get("dim")) else "")
    text += ", keepdims=True)" if plain(a.get("keepdim", False)) else ")"
    return fill(text, **parts)


def _axis(body: Printer, a: dict[str, Any]) -> ast.expr:
    dims = a.get("dim")
    return body.value(dims[0] if isinstance(dims, list) and len(dims) == 1 else dims)


@rule("var", "std")
def _variance(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = node.target.partition(".")[0]
    correction = plain(a.get("correction"))
    ddof = 1 if correction is None else int(correction)
    text = f"jnp.{name}(x, axis=axis, ddof={ddof}"
    text += ", keepdims=True)" if plain(a.get("keepdim", False)) else ")"
    return fill(text, x=body.value(a["self"]), axis=_axis(body, a))


@rule("max", "min")
def _largest(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = node.target.partition(".")[0]
    x = body.value(a["self"])
    if "dim" not in a:
        return fill(f"jnp.{name}(x)", x=x)
    keep = ", keepdims=True" if plain(a["keepdim"]) else ""
    text = f"(jnp.{name}(x, axis=dim{keep}), jnp.arg{name}(x, axis=dim{keep}))"
    return fill(text, x=x, dim=body.value(a["dim"]))


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


@rule("chunk", "split", "split_with_sizes")
def _split(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    x, dim = a["self"], body.value(a["dim"])
    sizes = a.get("split_sizes", a.get("split_size"))
    if not isinstance(sizes, list):
        count = len({user.arguments["1"].values[0] for user in node.users})
        size = x.dims[plain(a["dim"])]
        if sizes is None:
            count = plain(a["chunks"])
        elif size.values[0] != count * sizes.values[0]:
            count = -(-size.values[0] // sizes.values[0])
        return fill(f"jnp.split(x, {count}, axis=dim)", x=body.value(x), dim=dim)
    if len({n.values for n in sizes}) == 1:
        return fill(f"jnp.split(x, {len(sizes)}, axis=dim)", x=body.value(x), dim=dim)
    ends = [
        Number(tuple(map(sum, zip(*(n.values for n in sizes[: i + 1]), strict=True))))
        for i in range(len(sizes) - 1)
    ]
    ends_text = ast.List([body.value(n) for n in ends], ast.Load())
    return fill("jnp.split(x, ends, axis=dim)", x=body.value(x), ends=ends_text, dim=dim)


@rule("unbind")
def _unbind(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    return fill("jnp.moveaxis(x, dim, 0)", x=body.value(a["self"]), dim=body.value(a["dim"]))


@rule("topk")
def _top(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    assert plain(a["dim"]) in (-1, len(a["self"].dims) - 1) and plain(a["largest"])
    return fill("jax.lax.top_k(x, k)", x=body.value(a["self"]), k=body.value(a["k"]))


@rule("einsum")
def _einsum(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    arrays = [body.value(x) for x in a["tensors"]]
    return ast.Call(parse("jnp.einsum"), [ast.Constant(a["equation"]), *arrays], [])


@rule("repeat")
def _tile(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    repeats = sequence([body.value(x) for x in a["repeats"]])
    return fill("jnp.tile(x, repeats)", x=body.value(a["self"]), repeats=repeats)


@rule("constant_pad_nd", "pad")
def _pad(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    sizes = a["pad"]
    pairs = [sizes[i : i + 2] for i in range(0, len(sizes), 2)][::-1]
    rank = len(a["self"].dims)
    whole: list[ast.expr] = [parse("(0, 0)") for _ in range(rank - len(pairs))]
    whole += [sequence([body.value(x) for x in pair]) for pair in pairs]
    value = a["value"].value if isinstance(a["value"], Default) else a["value"]
    text = (
        "jnp.pad(x, pads)"
        if plain(value) in (0, None)
        else "jnp.pad(x, pads, constant_values=value)"
    )
    return fill(text, x=body.value(a["self"]), pads=sequence(whole), value=body.value(value))


@rule("embedding")
def _embedding(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    return fill("weight[indices]", weight=body.value(a["weight"]), indices=body.value(a["indices"]))


@rule("layer_norm")
def _layer_norm(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    if len(a["normalized_shape"]) != 1:
        raise NotImplementedError("normalized_shape of several dims")
    parts = {"x": body.value(a["input"]), "eps": body.value(a["eps"])}
    text = "jax.nn.standardize(x, epsilon=eps)"
    for name, sign in (("weight", "*"), ("bias", "+")):
        if isinstance(a[name], Node):
            text = f"{text} {sign} {name}"
            parts[name] = body.value(a[name])
    return fill(text, **parts)


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def _pool(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = node.target.partition(".")[0]
    rank = len(a["self"].dims) - 2
    window = _of_rank(a["kernel_size"], rank)
    stride = _of_rank(a["stride"], rank) if plain(a["stride"]) else window
    padding = _of_rank(a["padding"], rank)
    served = ("ceil_mode", "divisor_override", "dilation")
    if any(plain(a.get(key)) not in (None, False, 1, [1] * rank, [1]) for key in served):
        raise NotImplementedError("ceil_mode, dilation or a divisor")
    function = f"{name[:3]}_pool"
    body.use(f"from redco_runtime.nn.channels_first import {function}")
    parts = {"x": body.value(a["self"]), "window": _sizes(body, window)}
    text = f"{function}(x, window"
    if plain(stride) != plain(window):
        text, parts = f"{text}, strides=strides", parts | {"strides": _sizes(body, stride)}
    if any(plain(padding)):
        text, parts = f"{text}, padding=padding", parts | {"padding": _sizes(body, padding)}
    if plain(a.get("count_include_pad")) is False:
        text = f"{text}, count_padding=False"
    return fill(f"{text})", **parts)


def _of_rank(x: Any, rank: int) -> list[Any]:
    x = x.value if isinstance(x, Default) else x
    items = x if isinstance(x, list) else [x]
    return items * rank if len(items) == 1 else items


def _sizes(body: Printer, items: list[Any]) -> ast.expr:
    return sequence([body.value(x) for x in items])


@rule("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def _adaptive(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    sizes, rank = plain(a["output_size"]), len(a["self"].dims) - 2
    dims = a["self"].dims[2:]
    if all(size == 1 for size in sizes):
        axes = sequence([ast.Constant(2 + i) for i in range(rank)])
        return fill("jnp.mean(x, axis=axes, keepdims=True)", x=body.value(a["self"]), axes=axes)
    if any(n % size for dim, size in zip(dims, sizes, strict=True) for n in dim.values):
        raise NotImplementedError("sizes that do not divide the image")
    window = [
        Number(tuple(n // size for n in dim.values)) for dim, size in zip(dims, sizes, strict=True)
    ]
    body.use("from redco_runtime.nn.channels_first import avg_pool")
    return fill("avg_pool(x, window)", x=body.value(a["self"]), window=_sizes(body, window))


@rule("glu")
def _gated(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    return fill("jax.nn.glu(x, axis=dim)", x=body.value(a["self"]), dim=body.value(a["dim"]))


@rule("attention")
def _attention(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return attention of the runtime: a mask of keys is said as one, another one is a bias."""
    parts = {name: body.value(a[name]) for name in ("q", "k", "v")}
    text = "attention(q, k, v"
    if a["causal"]:
        text += ", causal=True"
    if isinstance(a["mask"], Node):
        argument, parts["mask"] = _masked(body, a["mask"])
        text += f", {argument}=mask"
    if any(a["window"].values):
        text, parts["window"] = f"{text}, window=window", body.value(a["window"])
    if plain(a["cap"]) != 0:
        text, parts["cap"] = f"{text}, cap=cap", body.value(a["cap"])
    heads = a["q"].dims[-1].values
    if any(abs(x - h**-0.5) > 1e-9 for x, h in zip(a["scale"].values, heads, strict=True)):
        text, parts["scale"] = f"{text}, scale=scale", body.value(a["scale"])
    if plain(a["dropout"]) == 0:
        body.use("from redco_runtime.nn.attention import attention")
        return fill(f"{text})", **parts)
    body.use("from redco_runtime.nn.dropout import attention")
    parts["dropped"] = body.drop(a["dropout"])
    return fill(f"{text}, drop=dropped)", **parts)


def _masked(body: Printer, mask: Node) -> tuple[str, ast.expr]:
    """Return (argument of attention, Python) of a mask."""
    assert mask.dims is not None and mask.dtype is not None
    x = body.value(mask)
    if mask.dtype != torch.bool:
        return "bias_1NST", _of_four_dims(x, len(mask.dims))
    alike = [set(dim.values) == {1} for dim in mask.dims]
    if len(alike) == 4 and alike[1] and alike[2]:
        return "mask_BT", fill("x[:, 0, 0]", x=x)
    bias = fill("jnp.where(x, 0.0, jnp.finfo(jnp.float32).min)", x=x)
    return "bias_1NST", _of_four_dims(bias, len(mask.dims))


def _of_four_dims(x: ast.expr, rank: int) -> ast.expr:
    return x if rank == 4 else fill(f"x[{'None, ' * (4 - rank)}...]", x=x)


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


@rule("copy")
def _copy(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    if a["src"].dims == a["self"].dims and a["src"].dtype == a["self"].dtype:
        return body.value(a["src"])
    shape = sequence(body.shape(list(node.dims or ()), None))
    parts = {"x": body.value(a["src"]), "shape": shape, "dtype": body.value(node.dtype)}
    return fill("jnp.broadcast_to(x, shape).astype(dtype)", **parts)
