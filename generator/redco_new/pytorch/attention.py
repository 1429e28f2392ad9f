"""Attention as one operation of a program, in the order of dims that our runtime has: q (B, S, N, H)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import fx

from redco_new.pytorch.refusal import Impossible, place_of, refuse
from redco_new.pytorch.unread import drop_unread

aten = torch.ops.aten
LEAST = torch.finfo(torch.float32).min  # of a logit, instead of -inf: a row may attend to none


@torch.library.custom_op("redco::attention", mutates_args=())
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    attend: torch.Tensor | None,
    scale: float,
    causal: bool,
    window: int,
    cap: float,
    dropout: float,
) -> torch.Tensor:
    """Return attention of (B, S, N, H), as our runtime has it, in eval mode.

    attend: stands for what the printed model attends by, where it is handed on to here.
    """
    shared = q.shape[2] // k.shape[2]  # queries of one key
    k, v = (x.repeat_interleave(shared, 2) for x in (k, v))
    logits = torch.einsum("bsnh,btnh->bnst", q, k) * scale
    if cap:
        logits = cap * torch.tanh(logits / cap)
    if mask is not None and mask.dtype != torch.bool:
        logits = logits + mask
    elif mask is not None:
        logits = logits.masked_fill(~mask, LEAST)
    S, T = logits.shape[2:]
    behind = torch.arange(S)[:, None] - torch.arange(T)
    if causal:
        logits = logits.masked_fill(behind < 0, LEAST)
    if window:
        logits = logits.masked_fill(behind >= window, LEAST)
    return torch.einsum("bnst,btnh->bsnh", logits.softmax(-1), v).contiguous()


class Call(NamedTuple):
    """The arguments of attention in a program, as the operation above has them."""

    q: fx.Node
    k: fx.Node
    v: fx.Node
    mask: fx.Node | None
    attend: fx.Node | None
    scale: float
    causal: bool
    window: int
    cap: float
    dropout: float


def is_attention(node: fx.Node) -> bool:
    """Return whether a step of a program is attention."""
    return node.target is torch.ops.redco.attention.default


def calls_in(graph: fx.Graph) -> list[Call]:
    """Return what attention is given in a program, each time."""
    return [Call(*node.args) for node in graph.nodes if is_attention(node)]


@attention.register_fake
def _shape(q, k, v, mask, attend, scale, causal, window, cap, dropout):
    if q.shape[2] % k.shape[2]:  # sizes that the class cannot have, which are not looked for either
        what = f"{q.shape[2]} heads of queries cannot share {k.shape[2]} of keys"
        raise Impossible("--model", what, "give it heads that are a multiple of those of keys")
    return q.new_empty(*q.shape[:3], v.shape[3])


def join_attention(graph: fx.Graph) -> None:
    """Put that operation where a program has F.scaled_dot_product_attention, and transposes that undo each other away."""
    for node in [n for n in graph.nodes if n.target == aten.scaled_dot_product_attention.default]:
        _join(graph, node)
    for node in list(graph.nodes):
        if (
            _is_transpose(node)
            and _is_transpose(node.args[0])
            and node.args[1:] == node.args[0].args[1:]
        ):
            node.replace_all_uses_with(node.args[0].args[0])
    drop_unread(graph)


def _join(graph: fx.Graph, node: fx.Node) -> None:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    named: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    query = named["query"]
    if query.meta["val"].ndim != 4:
        what = f"attention of {query.meta['val'].ndim} dims has no rule"
        raise refuse(place_of(node.meta.get("stack_trace")), what, "give it (B, heads, S, size)")
    scale = named.get("scale") or query.meta["val"].shape[-1] ** -0.5
    rest = (named.get("attn_mask"), None, scale, named.get("is_causal", False), 0, 0.0)
    with graph.inserting_before(node):
        arrays = [_transpose(graph, named[name], node) for name in ("query", "key", "value")]
        arguments = (*arrays, *rest, named.get("dropout_p", 0.0))
        joined = graph.call_function(torch.ops.redco.attention.default, arguments)
        joined.meta = {**node.meta, "val": node.meta["val"].transpose(1, 2)}
        back = _transpose(graph, joined, node)
    node.replace_all_uses_with(back)
    graph.erase_node(node)


def _transpose(graph: fx.Graph, array: fx.Node, of: fx.Node) -> fx.Node:
    """Return (B, S, N, H) of (B, N, S, H), or the other way round."""
    node = graph.call_function(aten.transpose.int, (array, 1, 2))
    node.meta = {**of.meta, "val": array.meta["val"].transpose(1, 2)}
    return node


def _is_transpose(node: fx.Node) -> bool:
    return isinstance(node, fx.Node) and node.target == aten.transpose.int
