"""Operations of PyTorch in JAX that a text does not say: a function each, of the printed arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Protocol

import torch


from redco_new.pytorch.expressions import fill, parse, sequence
from redco_new.pytorch.merge import Default, Node
from redco_new.pytorch.sizes import Number


class Printer(Protocol):
    """What a rule asks of the body that it prints into."""

    def value(self, x: Any) -> ast.expr:
        """Return an argument as Python."""

    def shape(self, sizes: list[Any], base: Node | None) -> list[ast.expr]:
        """Return sizes of a new shape; at most one is -1, where `base` is reshaped."""

    def use(self, line: str) -> None:
        """Add an import."""

    def stored(self, node: Node) -> ast.expr:
        """Return a parameter as Python, in the dtype that it is stored in."""

    def drop(self, rate: Number) -> ast.expr:
        """Return Python of a Dropout, which __init__ makes."""

    def noise(self, kind: str) -> ast.expr:
        """Return Python of a Noise, which __init__ makes; kind: "normal" or "uniform"."""


Rule = Callable[[Printer, dict[str, Any], Node], ast.expr]
FUNCTIONS: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator, which makes a function the rule of operations."""

    def register(function: Rule) -> Rule:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


# Of a number that programs do not have in common, which is none that a rule asks for.
VARIES = object()


def plain(x: Any) -> Any:
    """Return an argument of which all programs have the same: a number, or a list of such; else VARIES."""
    if isinstance(x, Default):
        return plain(x.value)
    if isinstance(x, list):
        return [plain(item) for item in x]
    if isinstance(x, Number):
        return x.values[0] if len(set(x.values)) == 1 else VARIES
    return x


@rule("view", "reshape", "_unsafe_view")
def _reshape(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    sizes = a["size"] if "size" in a else a["shape"]
    if not sizes and not a["self"].dims:
        return body.value(a["self"])
    return ast.Call(fill("x.reshape", x=body.value(a["self"])), body.shape(sizes, a["self"]), [])


@rule("expand")
def _expand(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    assert node.dims is not None
    shape = sequence(body.shape(list(node.dims), None))
    return fill("jnp.broadcast_to(x, shape)", x=body.value(a["self"]), shape=shape)


@rule("zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty")
def _new(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = "ones" if "ones" in node.target else "zeros"
    shape = sequence(body.shape(a["size"], None))
    return fill(f"jnp.{name}(shape, dtype)", shape=shape, dtype=body.value(node.dtype))


@rule("full", "new_full")
def _full(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    parts = {"shape": sequence(body.shape(a["size"], None)), "dtype": body.value(node.dtype)}
    return fill("jnp.full(shape, x, dtype)", x=body.value(a["fill_value"]), **parts)


@rule("randn", "rand", "randn_like", "rand_like")
def _draw(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    kind = "normal" if node.target.startswith("randn") else "uniform"
    shape = sequence(body.shape(list(node.dims or ()), None))
    return ast.Call(body.noise(kind), [shape, body.value(node.dtype)], [])


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


@rule("eye")
def _identity(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    sizes = [body.value(a[name]) for name in ("n", "m") if name in a]
    return ast.Call(parse("jnp.eye"), sizes, [ast.keyword("dtype", body.value(node.dtype))])


@rule("scalar_tensor")
def _scalar(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    return fill("jnp.asarray(s, dtype)", s=_nested(body, a["s"]), dtype=body.value(node.dtype))


def _nested(body: Printer, x: Any) -> ast.expr:
    """Return a number, or a list of such."""
    if isinstance(x, list):
        return ast.List([_nested(body, one) for one in x], ast.Load())
    return body.value(x)


@rule("_to_copy", "to", "type_as")
def _cast(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    x = a["self"]
    if x.kind == "parameter" and node.dtype == torch.float32:
        return body.stored(x)
    return fill("x.astype(dtype)", x=body.value(x), dtype=body.value(node.dtype))


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
    ddof = int(plain(a.get("unbiased", True)) if correction is None else correction)
    text = f"jnp.{name}(x, axis=axis" + (f", ddof={ddof}" if ddof else "")
    text += ", keepdims=True)" if plain(a.get("keepdim", False)) else ")"
    return fill(text, x=body.value(a["self"]), axis=_axis(body, a))


@rule("max", "min")
def _largest(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = node.target.partition(".")[0]
    x = body.value(a["self"])
    if "other" in a:
        return fill(f"jnp.{name}imum(x, y)", x=x, y=body.value(a["other"]))
    if "dim" not in a:
        return fill(f"jnp.{name}(x)", x=x)
    function = {"max": "largest", "min": "smallest"}[name]
    body.use(f"from redco_runtime.nn.places import {function}")
    keep = ", keepdims=True" if plain(a["keepdim"]) else ""
    return fill(f"{function}(x, axis=dim{keep})", x=x, dim=body.value(a["dim"]))


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
    if plain(a["dim"]) == 0:
        return body.value(a["self"])
    return fill("jnp.moveaxis(x, dim, 0)", x=body.value(a["self"]), dim=body.value(a["dim"]))


@rule("topk")
def _top(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    assert plain(a["dim"]) in (-1, len(a["self"].dims) - 1) and plain(a["largest"])
    return fill("jax.lax.top_k(x, k)", x=body.value(a["self"]), k=body.value(a["k"]))


@rule("einsum")
def _einsum(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    arrays = [body.value(x) for x in a["tensors"]]
    return ast.Call(parse("jnp.einsum"), [ast.Constant(a["equation"]), *arrays], [])


@rule("logcumsumexp")
def _logcumsumexp(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    dim = plain(a["dim"]) % max(len(a["self"].dims), 1)  # JAX counts no dim from the end here
    return fill(f"jax.lax.cumlogsumexp(x, axis={dim})", x=body.value(a["self"]))


@rule("norm_except_dim")
def _norms(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    rank, power = len(a["v"].dims), plain(a.get("pow", 2))
    dims = tuple(i for i in range(rank) if i != plain(a.get("dim", 0)) % rank)
    axis = dims[0] if len(dims) == 1 else dims
    text = f"jnp.linalg.vector_norm(v, ord={power}, axis={axis}, keepdims=True)"
    return fill(text, v=body.value(a["v"]))


WINDOWS = {"hann_window": "hanning", "hamming_window": "hamming", "blackman_window": "blackman"}


@rule(*WINDOWS)
def _window(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    if "alpha" in a:
        raise NotImplementedError("alpha")
    function = f"jnp.{WINDOWS[node.target.partition('.')[0]]}"
    periodic = bool(plain(a.get("periodic", True)))
    points = body.value(Number(tuple(n + periodic for n in a["window_length"].values)))
    return fill(f"{function}(n)" + "[:-1]" * periodic, n=points)


@rule("meshgrid")
def _grid(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    indexing = plain(a.get("indexing")) or "ij"
    arrays = [body.value(x) for x in a["tensors"]]
    said = [ast.keyword("indexing", ast.Constant(indexing))] * (indexing != "xy")
    return ast.Call(parse("jnp.meshgrid"), arrays, said)


@rule("repeat")
def _tile(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    repeats = sequence([body.value(x) for x in a["repeats"]])
    return fill("jnp.tile(x, repeats)", x=body.value(a["self"]), repeats=repeats)


@rule("copy")
def _copy(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    if a["src"].dims == a["self"].dims and a["src"].dtype == a["self"].dtype:
        return body.value(a["src"])
    shape = sequence(body.shape(list(node.dims or ()), None))
    parts = {"x": body.value(a["src"]), "shape": shape, "dtype": body.value(node.dtype)}
    return fill("jnp.broadcast_to(x, shape).astype(dtype)", **parts)
