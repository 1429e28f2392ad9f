"""Layers of PyTorch that are called as functions: pools, norms, attention. Rules as those of rules.py."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import torch

from redco_new.pytorch.expressions import fill, sequence
from redco_new.pytorch.leaves import FLOAT_EPSILON
from redco_new.pytorch.merge import Default, Node
from redco_new.pytorch.rules import Printer, plain, rule
from redco_new.pytorch.sizes import Number


@rule("embedding")
def _embedding(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    weight = (
        body.stored(a["weight"]) if a["weight"].kind == "parameter" else body.value(a["weight"])
    )
    return fill("weight[indices]", weight=weight, indices=body.value(a["indices"]))


@rule("layer_norm", "rms_norm")
def _norm(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return a norm of the last dim, of which that of squares takes no mean away."""
    if len(a["normalized_shape"]) != 1:
        raise NotImplementedError("normalized_shape of several dims")
    mean = "" if node.target.startswith("layer_norm") else "mean=0.0, "
    eps = ast.Constant(FLOAT_EPSILON) if plain(a["eps"]) is None else body.value(a["eps"])
    parts = {"x": body.value(a["input"]), "eps": eps}
    text = f"jax.nn.standardize(x, {mean}epsilon=eps)"
    if node.dtype != torch.float32:  # means of bfloat16 are sums of float32
        parts |= {"dtype": body.value(node.dtype)}
        text = f"jax.nn.standardize(x.astype(jnp.float32), {mean}epsilon=eps).astype(dtype)"
    for name, sign in (("weight", "*"), ("bias", "+")):
        if isinstance(a.get(name), Node):
            text = f"{text} {sign} {name}"
            parts[name] = body.value(a[name])
    return fill(text, **parts)


RARE = ("divisor_override", "dilation")  # of pools


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def _pool(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = node.target.partition(".")[0]
    rank = len(a["self"].dims) - 2
    window = _of_rank(a["kernel_size"], rank)
    stride = _of_rank(a["stride"], rank) if plain(a["stride"]) else window
    padding = _of_rank(a["padding"], rank)
    pads, ceil = any(map(any, _rows(padding))), plain(a["ceil_mode"])
    if any(plain(a.get(key)) not in (None, 1, [1] * rank, [1]) for key in RARE):
        raise NotImplementedError("dilation or a divisor")
    if ceil and pads and plain(a.get("count_include_pad")):
        raise NotImplementedError("ceil_mode and zeros that count")
    function = f"{name[:3]}_pool"
    body.use(f"from redco_runtime.nn.channels_first import {function}")
    parts = {"x": body.value(a["self"]), "window": _sizes(body, window)}
    text = f"{function}(x, window"
    if _rows(stride) != _rows(window):
        text, parts = f"{text}, strides=strides", parts | {"strides": _sizes(body, stride)}
    if pads:
        text, parts = f"{text}, padding=padding", parts | {"padding": _sizes(body, padding)}
    if plain(a.get("count_include_pad")) is False:
        text = f"{text}, count_padding=False"
    text += ", ceil=True" if ceil else ""
    return fill(f"{text})", **parts)


def _rows(items: list[Any]) -> list[tuple[int, ...]]:
    """Return the values that each size has, of one that is the same in all programs just that."""
    return [tuple(dict.fromkeys(getattr(x, "values", (x,)))) for x in items]


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


SMOOTH = ("_aa.default", "_aa.vec")  # which XLA has, to the last bits


@rule("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "upsample_bicubic2d")  # fmt: skip
def _resize(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    assert node.dims is not None
    pairs = list(zip(node.dims[2:], a["input"].dims[2:], strict=True))
    ratios = {new / old for n, o in pairs for new, old in zip(n.values, o.values, strict=True)}
    said = a.get("scale_factors")
    if isinstance(said, list) and {x for n in said for x in n.values} - ratios:
        raise NotImplementedError("a factor that gives no whole size")
    if ratios == {1}:  # as timm's positions, where it exports
        return body.value(a["input"])
    if node.target.endswith(SMOOTH) and not plain(a["align_corners"]):
        x, sizes = body.value(a["input"]), sequence(body.shape(list(node.dims), None))
        way = ast.Constant("cubic" if "bicubic" in node.target else "linear")
        return fill("jax.image.resize(x, sizes, way)", x=x, sizes=sizes, way=way)
    if "bicubic" in node.target:
        raise NotImplementedError("a cubic of PyTorch's own: antialias=True has one")
    times = ratios.pop() if len(ratios) == 1 else 0.5
    parts, function = {"x": body.value(a["input"])}, "resize"
    if times.is_integer():
        parts["sizes"], function = body.value(Number((int(times),))), "enlarge"
    else:
        parts["sizes"] = sequence(body.shape(list(node.dims[2:]), None))
    body.use(f"from redco_runtime.nn.channels_first import {function}")
    text = f"{function}(x, sizes" + ("" if "nearest" in node.target else ', "linear"')
    if plain(a.get("align_corners")) is True:
        text += ", align_corners=True"
    return fill(f"{text})", **parts)


@rule("conv1d", "conv2d", "conv3d")
def _convolve(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return a convolution with weights that no layer of Flax holds; padding by a text is refused."""
    assert node.dims is not None
    rank = len(node.dims) - 2
    strides, padding, dilation = (
        _of_rank(a[key], rank) for key in ("stride", "padding", "dilation")
    )
    places = "DHW"[3 - rank :]
    orders = (f"NC{places}", f"OI{places}", f"NC{places}")
    pads = [sequence([body.value(x), body.value(x)]) for x in padding]
    parts = {key: body.value(a[name]) for key, name in (("x", "input"), ("weight", "weight"))}
    parts |= {"strides": _sizes(body, strides), "pads": ast.List(pads, ast.Load())}
    text = f"jax.lax.conv_general_dilated(x, weight, strides, pads, dimension_numbers={orders}"
    if {*_rows(dilation)} != {(1,)}:
        text, parts["dilation"] = f"{text}, rhs_dilation=dilation", _sizes(body, dilation)
    if plain(a["groups"]) != 1:
        text, parts["groups"] = f"{text}, feature_group_count=groups", body.value(a["groups"])
    text += ")"
    if isinstance(a["bias"], Node):
        text, parts["bias"] = f"{text} + bias[:{', None' * rank}]", body.value(a["bias"])
    return fill(text, **parts)


@rule("instance_norm", "group_norm")
def _instance_norm(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return a norm of each channel, or of groups of them."""
    if isinstance(a.get("running_mean"), Node):
        raise NotImplementedError("running statistics")
    rank = len(a["input"].dims) - 2
    first = 1 if "num_groups" in a else 2
    parts = {"x": body.value(a["input"]), "eps": body.value(a["eps"])}
    text = f"jax.nn.standardize(x, axis={tuple(range(first, 2 + rank))}, epsilon=eps)"
    if plain(a.get("num_groups", 1)) != 1:
        body.use("from redco_runtime.nn.channels_first import group_norm")
        text, parts["groups"] = "group_norm(x, groups, eps)", body.value(a["num_groups"])
    for name, sign in (("weight", "*"), ("bias", "+")):
        if isinstance(a[name], Node):
            text = f"{text} {sign} {name}[:{', None' * rank}]"
            parts[name] = body.value(a[name])
    return fill(text, **parts)


@rule("pixel_shuffle", "pixel_unshuffle")
def _shuffle(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    name = node.target.partition(".")[0]
    body.use(f"from redco_runtime.nn.channels_first import {name}")
    times = a.get("upscale_factor", a.get("downscale_factor"))
    return fill(f"{name}(x, times)", x=body.value(a["self"]), times=body.value(times))


@rule("gru_cell", "lstm_cell", "rnn_tanh_cell")
def _cell(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return a step of a recurrence, by what its gates get of the input and of the state."""
    name = node.target.partition("_")[0]
    states = a["hx"] if isinstance(a["hx"], list) else [a["hx"]]
    parts = {"x": body.value(a["input"]), "states": body.value(states[0])}
    parts |= {key: body.value(a[key]) for key in ("w_ih", "w_hh")}
    gates = ["x @ w_ih.T", "states @ w_hh.T"]
    for i, bias in enumerate(("b_ih", "b_hh")):
        if isinstance(a.get(bias), Node):
            gates[i], parts[bias] = f"{gates[i]} + {bias}", body.value(a[bias])
    body.use(f"from redco_runtime.nn.recurrent import {name}_step")
    call = fill(f"{name}_step({', '.join(gates)})", **parts)
    assert isinstance(call, ast.Call)
    call.args += [body.value(x) for x in states]
    return call


@rule("glu")
def _gated(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    return fill("jax.nn.glu(x, axis=dim)", x=body.value(a["self"]), dim=body.value(a["dim"]))


@rule("attention")
def _attention(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return attention of the runtime: a mask of keys is said as one, another one is a bias.

    Where the program hands on what it attends by, that: it says causal, and who is in a text.
    """
    parts = {name: body.value(a[name]) for name in ("q", "k", "v")}
    handed_on = isinstance(a["attend"], Node)
    text = "attend(q, k, v" if handed_on else "attention(q, k, v"
    if a["causal"] and not handed_on:
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
    if plain(a["dropout"]) != 0:
        text, parts["dropped"] = f"{text}, drop=dropped", body.drop(a["dropout"])
    if handed_on:
        return fill(f"{text})", attend=body.value(a["attend"]), **parts)
    module = "attention" if plain(a["dropout"]) == 0 else "dropout"
    body.use(f"from redco_runtime.nn.{module} import attention")
    return fill(f"{text})", **parts)


@rule("experts")
def _experts(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return experts of the runtime, whose matrices are apart in model.py."""
    body.use("from redco_runtime.nn.experts.chosen import chosen_experts")
    kernels = [
        body.value(replace(a[of], target=name))
        for name, of in (("gate_proj", "pair"), ("up_proj", "pair"), ("down_proj", "last"))
    ]
    arrays = [body.value(a[name]) for name in ("x", "numbers", "shares")]
    return ast.Call(ast.Name("chosen_experts", ast.Load()), [*arrays, *kernels], [])


def _masked(body: Printer, mask: Node) -> tuple[str, ast.expr]:
    """Return (argument of attention, Python) of a mask."""
    assert mask.dims is not None and mask.dtype is not None
    x = body.value(mask)
    if mask.dtype != torch.bool:
        return "bias_1NST", _of_four_dims(x, len(mask.dims))
    alike = [set(dim.values) == {1} for dim in mask.dims]
    if len(alike) == 4 and alike[1] and alike[2]:
        if isinstance(x, ast.Subscript) and ast.unparse(x.slice) == "(:, None, None)":
            return "mask_BT", x.value
        return "mask_BT", fill("x[:, 0, 0]", x=x)
    bias = fill("jnp.where(x, 0.0, jnp.finfo(jnp.float32).min)", x=x)
    return "bias_1NST", _of_four_dims(bias, len(mask.dims))


def _of_four_dims(x: ast.expr, rank: int) -> ast.expr:
    return x if rank == 4 else fill(f"x[{'None, ' * (4 - rank)}...]", x=x)


@rule("embedding_bag")
def _bag(body: Printer, a: dict[str, Any], node: Node) -> ast.expr:
    """Return the sums, means or maxima of rows of a table, of texts that are all as long."""
    even = isinstance(a["offsets"], Node) and a["offsets"].target.startswith("arange")
    weighed = isinstance(a.get("per_sample_weights"), Node)
    row = plain(a.get("padding_idx"))
    if not even or weighed or row not in (None, -1):
        raise NotImplementedError("offsets, weights or a padding row")
    name = ("sum", "mean", "max")[plain(a.get("mode", 0))]
    places = [user for user in node.users if user.kind == "item"]
    first = places[0].dims if places else None
    assert first is not None and all(plain(x.arguments["1"]) == 0 for x in places)
    parts = {"rows": fill("x[i]", x=body.value(a["weight"]), i=body.value(a["indices"]))}
    shape = body.shape([first[0], Number((-1,) * len(first[0].values)), first[1]], None)
    return fill(f"(jnp.{name}(rows.reshape(shape), axis=1),)", shape=sequence(shape), **parts)
