"""Classes of transformers: made of a config, with attention as one operation of their program."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from types import MethodType
from typing import Any

import torch
from torch import nn

from redco_new.pytorch.config_lists import without_implied
from redco_new.pytorch.experts import compute_experts, record_fused
from redco_new.pytorch.kinds import LABELS
from redco_new.pytorch.printed import HubFacts
from redco_new.pytorch.setting import Fixed
from redco_new.pytorch.step_forms import by_steps

NAME = "redco"  # of our attention, in their registry
PLAIN = "eager"  # theirs, written out
# What a call gets besides the ids: without a mask of ones, transformers suspects texts packed in a row, and
# builds S x S masks from positions; a cache is of no use in training.
IDS, MASK, POSITIONS, CACHE = "input_ids", "attention_mask", "position_ids", "use_cache"
HANDED_ON, ONES = "handed on", "ones"
# Numbers of a config that say nothing about the program.
OTHER = ("_token_id", "chunk_size_feed_forward", "pretraining_tp")

# What draws on the host, layer by layer or by NumPy, what a step leaves out: it has no program, and is switched off.
SWITCHES = {"apply_spec_augment", "layerdrop", "encoder_layerdrop", "decoder_layerdrop"}

# Keys of every config, which say how it is called and not what it is.
LEFT_OUT = """transformers_version dtype torch_dtype use_cache is_encoder_decoder output_hidden_states return_dict
    output_attentions chunk_size_feed_forward problem_type id2label label2id""".split()


def is_transformers(cls: type[nn.Module]) -> bool:
    """Return whether a class is made of a config of transformers."""
    return any(base.__name__ == "PreTrainedModel" for base in cls.__mro__)


def make_of_config(
    cls: Any,
    arguments: Mapping[str, Any],
    attention: str = NAME,
    mask: str = "",
    experts: str = NAME,
    logits: bool = False,
    parts: bool = False,
) -> nn.Module:
    """Return the module of a config with these values.

    mask: what attention_mask is: HANDED_ON to the layers, as what the printed ones attend by; ONES whatever it is given.
    logits: whether its forward gives these alone
    parts: whether its encoder is called apart, by whose hidden states its forward then goes on
    """
    register()
    config = cls.config_class(**copy.deepcopy(dict(arguments)))
    padding = getattr(config, "pad_token_id", None)
    if isinstance(padding, int) and padding >= getattr(config, "vocab_size", padding + 1):
        vars(config)["pad_token_id"] = None  # of the full vocabulary, where this one is smaller
    config.use_cache = False  # not all take it as an argument
    for key in SWITCHES & vars(config).keys():
        setattr(config, key, type(getattr(config, key))(0))
    config._attn_implementation, config._experts_implementation = attention, experts
    with _without_ties() if torch.compiler.is_exporting() else nullcontext():
        module = cls(config)
    if next(module.parameters()).is_meta:
        module.initialize_weights()  # which they leave out there: what it draws is noted
    record_fused(module)
    if mask:
        module.forward = _with_ones(module.forward, mask == HANDED_ON, first_position(module))
        module.forward = by_steps(module.forward, sys.modules[cls.__module__])
    if parts:
        module.forward = _by_parts(module)
    if logits:
        module.forward = MethodType(_with_logits(module.forward), module)
    return module


def _by_parts(module: nn.Module) -> Callable[..., Any]:
    """Return a forward of an encoder-decoder that calls the encoder first, as where texts are written."""
    from transformers.modeling_outputs import BaseModelOutput

    forward = module.forward

    @functools.wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        source = {IDS: kwargs.pop(IDS), MASK: kwargs[MASK]}
        x = find_encoder(module)(**source)[0]
        return forward(*args, encoder_outputs=BaseModelOutput(x), **kwargs)

    return wrapped


def find_encoder(module: Any) -> nn.Module:
    """Return the part of an encoder-decoder that reads sources."""
    encoder: nn.Module = module.get_encoder()
    return encoder


def _with_logits(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward that gives logits, and nothing else; of a copy of the module, that copy's."""
    function = getattr(forward, "__func__", None)

    @functools.wraps(function or forward)
    def wrapped(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        own = (self,) if function else ()
        return (function or forward)(*own, *args, **kwargs)["logits"]

    return wrapped


def _without_ties() -> AbstractContextManager[None]:
    """Leave parameters untied: where a constructor is traced, for its buffers, they are no part of a program."""
    from transformers.initialization import no_tie_weights

    tied: AbstractContextManager[None] = no_tie_weights()
    return tied


_attend_by: ContextVar[torch.Tensor | None] = ContextVar("attend_by", default=None)


def first_position(module: nn.Module) -> int:
    """Return the position of a text's first token: the one after that of padding, where a table of them has such."""
    tables = [x for path, x in module.named_modules() if path.endswith("position_embeddings")]
    rows = [x.padding_idx for x in tables if isinstance(x, nn.Embedding)]
    return max((row + 1 for row in rows if row is not None), default=0)


def _with_ones(forward: Callable[..., Any], hands_on: bool, first: int) -> Callable[..., Any]:
    """Return a forward whose mask is ones; what it is given reaches attention alone, in the place of all masks.

    first: added to the positions that it is given, which are from 0 on
    """

    @functools.wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if first and POSITIONS in kwargs:
            kwargs[POSITIONS] = kwargs[POSITIONS] + first
        token = _attend_by.set(kwargs[MASK] if hands_on else None)
        try:
            return forward(*args, **kwargs | {MASK: torch.ones_like(kwargs[IDS])})
        finally:
            _attend_by.reset(token)

    return wrapped


def register() -> None:
    """Add our attention and our experts to those of transformers: no mask is built of causal and sliding, nothing is sorted."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.moe import ExpertsInterface

    ExpertsInterface.register(NAME, compute_experts)
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, _mask)


def _attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    """Return (B, S, N, H) of (B, N, S, H): one operation of the program."""
    if any(rest.get(name) is not None for name in ("s_aux", "position_bias")):
        raise NotImplementedError("attention with sinks or a bias of positions")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    attend = _attend_by.get()
    if attend is not None and attention_mask is attend and causal:
        attention_mask = None
    else:
        attend = None
    if attention_mask is not None and attention_mask.ndim == 2:
        attention_mask = attention_mask.bool()[:, None, None, :]
    elif attention_mask is not None:
        causal, sliding_window = False, None
    arrays = (x.transpose(1, 2) for x in (query, key, value))
    scale = float(query.shape[-1] ** -0.5 if scaling is None else scaling)
    drop = dropout if module.training else 0.0
    numbers = (scale, bool(causal), int(sliding_window or 0), float(softcap or 0), float(drop))
    return torch.ops.redco.attention(*arrays, attention_mask, attend, *numbers), None


def _mask(
    *args: Any,
    mask_function: Any = None,
    attention_mask: Any = None,
    use_vmap: bool = False,
    **rest: Any,
) -> Any:
    """Return no mask, or what is handed on, where it is causal, or causal and sliding; the keys' own where all see all; else theirs."""
    from transformers import masking_utils

    if not use_vmap:
        if mask_function is masking_utils.causal_mask_function:
            return _attend_by.get()
        if mask_function is masking_utils.bidirectional_mask_function:
            return attention_mask
        cells = (cell.cell_contents for cell in getattr(mask_function, "__closure__", None) or ())
        parts = [f.__qualname__ for fs in cells if isinstance(fs, tuple) for f in fs]
        if sorted(parts) == ["causal_mask_function", "sliding_window_overlay.<locals>.inner_mask"]:
            return _attend_by.get()
    rest |= {"mask_function": mask_function, "attention_mask": attention_mask, "use_vmap": use_vmap}
    return masking_utils.sdpa_mask(*args, **rest | {"allow_is_causal_skip": False})


def switched_off(cls: Any, arguments: Mapping[str, Any]) -> list[str]:
    """Return the keys of a class's config that would draw on the host, and are switched off."""
    if not is_transformers(cls):
        return []
    fields = vars(cls.config_class(**copy.deepcopy(dict(arguments))))
    return sorted(key for key in SWITCHES & fields.keys() if fields[key])


def config_numbers(cls: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a class's config, with these values: what its sizes can be."""
    config = cls.config_class(**copy.deepcopy(dict(arguments)))
    numbers = {
        name: value
        for name, value in vars(config).items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name[0] != "_"
    }
    numbers[LABELS] = config.num_labels
    own = {k: Fixed(x) if isinstance(x, dict) else x for k, x in arguments.items()}
    within = {k: x for k, x in vars(config).items() if k in own and hasattr(x, "model_type")}
    return {k: x for k, x in numbers.items() if not k.endswith(OTHER)} | own | within


def hub_facts(cls: Any, arguments: Mapping[str, Any]) -> HubFacts:
    """Return what config.json says of a class with these values, and what tensors are called."""
    config = cls.config_class(**copy.deepcopy(dict(arguments)))
    document = without_implied(cls.config_class, config.to_dict())
    plain = _own_keys(document)
    kind = {"model_type": config.model_type, "architectures": [cls.__name__]}
    return HubFacts(
        kind | plain | kind, f"{cls.base_model_prefix}." if cls.base_model_prefix else ""
    )


def _own_keys(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a config.json says of the model, and the configs within it."""
    own = {k: v for k, v in document.items() if k[0] != "_" and k not in LEFT_OUT}
    configs = {k: _own_keys(v) for k, v in own.items() if isinstance(v, dict) and "model_type" in v}
    return {k: v for k, v in (own | configs).items() if _is_plain(v)}


def _is_plain(value: Any) -> bool:
    """Return whether JSON and Python's source have a value."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    return value is None or isinstance(value, bool | int | str | float)
