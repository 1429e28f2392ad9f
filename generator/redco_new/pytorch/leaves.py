"""Layers of torch.nn that Flax, or our runtime, has: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

MODES = {"circular": "wrap", "reflect": "reflect", "replicate": "edge"}  # of padding, for jnp.pad
FLOAT_EPSILON = torch.finfo(torch.float32).eps  # of norms of squares that are given none
NN = "from redco_runtime.nn"


@dataclass(frozen=True)
class Leaf:
    """How a layer of torch.nn is made in Flax.

    maker: Python that names it there
    arguments: of that, each the attribute of the torch layer that it is, or a function of that layer
    stored: parameter of the torch layer -> (its name in Flax, the stored dim that each dim is)
    flags: argument -> whether it is given, and what, of a torch layer; constants
    imports: the line that `maker` needs
    positional: how many of the arguments stand without their names
    drawn: (maker, import) of the same layer that draws its parameters as PyTorch does by itself, uniformly
    fits: what of such a layer is not served, in words, or ""
    gives: how many arrays a call gives, in a tuple where there are several
    computes: whether it takes the dtype that it computes in; the rows of a table are cast, so that gradients add up
        in float32
    """

    maker: str
    arguments: Mapping[str, str | Callable[[Any], Any]] = field(default_factory=dict)
    stored: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    flags: Callable[[Any], dict[str, Any]] = lambda layer: {}
    imports: str = ""
    positional: int = 2
    fits: Callable[[Any], str] = lambda layer: ""
    drawn: tuple[str, str] | None = None
    gives: int = 1
    computes: bool = True


def _bias(layer: Any) -> dict[str, Any]:
    return {} if layer.bias is not None else {"use_bias": False}


def _affine(layer: Any) -> dict[str, Any]:
    """Return what a norm has of scale and bias, where it is not both."""
    flags = {"use_scale": layer.weight is not None, "use_bias": layer.bias is not None}
    return {name: value for name, value in flags.items() if not value}


def _convolution(dims: int) -> Leaf:
    order = (*range(2, 2 + dims), 1, 0)

    def flags(layer: Any) -> dict[str, Any]:
        options = _bias(layer)
        if mode := MODES.get(layer.padding_mode):
            options["mode"] = mode
        if isinstance(layer.padding, str):
            options["padding"] = layer.padding.upper()
        return options

    sizes = {
        "in_features": "in_channels",
        "out_features": "out_channels",
        "kernel_size": "kernel_size",
        "strides": "stride",
        "padding": "padding",
        "kernel_dilation": "dilation",
        "feature_group_count": "groups",
    }
    return Leaf(
        "Conv", sizes, {"weight": ("kernel", order), "bias": ("bias", ())}, flags,
        f"{NN}.channels_first import Conv", 3,
        drawn=("Conv", f"{NN}.channels_first import Conv"),
    )  # fmt: skip


def _transposed(dims: int) -> Leaf:
    convolution = _convolution(dims)

    def fits(layer: Any) -> str:
        return f"groups={layer.groups}" if layer.groups > 1 else ""

    sizes = {k: v for k, v in convolution.arguments.items() if k != "feature_group_count"}
    sizes["output_padding"] = "output_padding"
    line = f"{NN}.channels_first import ConvTranspose"
    return Leaf(
        "ConvTranspose", sizes, convolution.stored, _bias, line, 3, fits, ("ConvTranspose", line)
    )


def _recurrent(name: str, gives: int) -> Leaf:
    """Return a layer that has the parameters of PyTorch's, by their names."""

    def fits(layer: Any) -> str:
        return f"proj_size={layer.proj_size}" if layer.proj_size else ""

    def flags(layer: Any) -> dict[str, Any]:
        options = {} if layer.bias else {"use_bias": False}
        options |= {key: True for key in ("batch_first", "bidirectional") if getattr(layer, key)}
        relu = getattr(layer, "nonlinearity", "tanh") == "relu"
        return options | ({"nonlinearity": "relu"} if relu else {})

    sizes = {key: key for key in ("input_size", "hidden_size", "num_layers", "dropout")}
    return Leaf(name, sizes, {}, flags, f"{NN}.recurrent import {name}", 2, fits, gives=gives)


def _share(layer: Any) -> float:
    """Return the share of a running mean that stays, as Flax has it; PyTorch has the share that is new."""
    return 1 - layer.momentum


def _batch_norm() -> Leaf:
    def fits(layer: Any) -> str:
        return "" if layer.track_running_stats and layer.momentum is not None else "momentum=None"

    stored = {"weight": ("scale", ()), "bias": ("bias", ())}
    stored |= {"running_mean": ("mean", ()), "running_var": ("var", ())}
    arguments: dict[str, str | Callable[[Any], Any]]
    arguments = {"num_features": "num_features", "momentum": _share, "epsilon": "eps"}
    return Leaf(
        "BatchNorm", arguments, stored, _affine, f"{NN}.channels_first import BatchNorm", 1, fits
    )


def _scale(layer: Any) -> dict[str, Any]:
    return {} if layer.weight is not None else {"use_scale": False}


def _epsilon(layer: Any) -> float:
    return FLOAT_EPSILON if layer.eps is None else float(layer.eps)


def _one_dim(layer: Any) -> str:
    return "" if len(layer.normalized_shape) == 1 else f"normalized_shape={layer.normalized_shape}"


LINEAR = {"in_features": "in_features", "out_features": "out_features"}
DROPOUT = Leaf("Dropout", {"rate": "p"}, imports=f"{NN}.dropout import Dropout", computes=False)
LINEARS = Leaf(
    "nnx.Linear", LINEAR, {"weight": ("kernel", (1, 0)), "bias": ("bias", ())}, _bias,
    drawn=("Linear", f"{NN}.uniform import Linear"),
)  # fmt: skip
SCALE = {"weight": ("scale", ()), "bias": ("bias", ())}

LEAVES: dict[type[nn.Module], Leaf] = {
    nn.Linear: LINEARS,
    # Of nn.MultiheadAttention, which reads its matrix, and calls it never.
    NonDynamicallyQuantizableLinear: LINEARS,
    nn.Embedding: Leaf(
        "nnx.Embed",
        {"num_embeddings": "num_embeddings", "features": "embedding_dim"},
        {"weight": ("embedding", ())},
        fits=lambda layer: "max_norm" if layer.max_norm is not None else "",
        computes=False,
    ),
    nn.LayerNorm: Leaf(
        "nnx.LayerNorm",
        {"num_features": "normalized_shape", "epsilon": "eps"},
        SCALE, _affine, positional=1, fits=_one_dim,
    ),
    nn.RMSNorm: Leaf(
        "nnx.RMSNorm",
        {"num_features": "normalized_shape", "epsilon": _epsilon},
        {"weight": ("scale", ())}, _scale, positional=1, fits=_one_dim,
    ),
    nn.GroupNorm: Leaf(
        "GroupNorm",
        {"num_features": "num_channels", "num_groups": "num_groups", "epsilon": "eps"},
        SCALE, _affine, f"{NN}.channels_first import GroupNorm",
    ),
    nn.Conv1d: _convolution(1),
    nn.Conv2d: _convolution(2),
    nn.Conv3d: _convolution(3),
    nn.ConvTranspose1d: _transposed(1),
    nn.ConvTranspose2d: _transposed(2),
    nn.ConvTranspose3d: _transposed(3),
    nn.LSTM: _recurrent("LSTM", 3),
    nn.GRU: _recurrent("GRU", 2),
    nn.RNN: _recurrent("RNN", 2),
    nn.BatchNorm1d: _batch_norm(),
    nn.BatchNorm2d: _batch_norm(),
    nn.BatchNorm3d: _batch_norm(),
    nn.Dropout: DROPOUT,
}  # fmt: skip


# What layers of Flax do unless told otherwise: not said again.
USUAL = {
    "strides": 1, "kernel_dilation": 1, "feature_group_count": 1, "output_padding": 0, "num_layers": 1, "dropout": 0.0,
}  # fmt: skip


def leaf_of(layer: nn.Module) -> Leaf | None:
    """Return how a layer is made; None for what is no layer of torch.nn."""
    leaf = LEAVES.get(type(layer))
    if leaf and getattr(layer, "padding_mode", "zeros") in MODES:
        maker, line = "PaddedConv", f"{NN}.padded_conv import PaddedConv"
        return replace(leaf, maker=maker, imports=line, drawn=(maker, line))
    return leaf


def is_usual(name: str, values: list[Any]) -> bool:
    """Return whether an argument of a layer is what Flax has by default."""
    wanted = USUAL.get(name)
    return wanted is not None and all(
        x == wanted or isinstance(x, tuple) and set(x) == {wanted} for x in values
    )


def show_dict(items: list[tuple[str, str]]) -> str:
    """Return Python of an nnx.Dict of (name, Python of a part)."""
    return f"nnx.Dict({{{', '.join(f'{name!r}: {text}' for name, text in items)}}})"
