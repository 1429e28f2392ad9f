"""What a class of transformers is for: the inputs that it reads, and how recipes call it as printed. Imports no torch."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from redco_new.models import family
from redco_new.request.own_class import Input

# What transformers calls them.
IDS, MASK, TARGET_IDS = "input_ids", "attention_mask", "decoder_input_ids"
PIXELS, WAVES, SPECTRA = "pixel_values", "input_values", "input_features"
LABELS = "num_labels"  # of a config, which has no such attribute of its own
PICTURE = (3, 224)  # channels and pixels of a side, where no config says them
SECOND = 16_000  # numbers of a second of sound, as most models of speech have it


@dataclass(frozen=True)
class Kind:
    """What a class is for.

    mapping: the list of transformers' auto classes that has it
    inputs: of its forward -> of the printed class
    provides: signatures of the printed class, as recipes ask for them
    split: whether its logits are made of hidden states, apart
    fields: arguments of its config -> fields of the printed config, which recipes read by these names
    """

    mapping: str
    inputs: Mapping[str, str]
    provides: frozenset[str]
    split: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)


TEXT = {IDS: "input_ids_BS", MASK: "mask_BS"}
IMAGES = Kind(
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    {PIXELS: "pixels_BHWC"},
    family.IMAGES,
    fields={LABELS: "num_classes", "image_size": "image_size", "num_channels": "num_channels"},
)
WORDS = Kind("MODEL_FOR_MASKED_LM_MAPPING_NAMES", TEXT, family.MASKED, split=True)
PAIRS = Kind(
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    TEXT | {TARGET_IDS: "decoder_ids_BT"},
    family.ENCODER_DECODER,
    split=True,
    fields={
        "decoder_start_token_id": "start_id", "pad_token_id": "pad_id", "eos_token_id": "eos_id",
        "forced_bos_token_id": "forced_bos_id", "forced_eos_token_id": "forced_eos_id",
    },
)  # fmt: skip
KINDS = (IMAGES, WORDS, PAIRS)


def kind_of(cls: Any, inputs: Mapping[str, Any]) -> Kind | None:
    """Return what a class of transformers is for, if it is called with what that needs; None for what no recipe trains.

    inputs: of its call, by name, but for a mask
    """
    fits = [kind for kind in KINDS if kind.inputs.keys() - {MASK} == inputs.keys()]
    return next((kind for kind in fits if _is_of(cls, kind.mapping)), None)


def provided_as_printed(cls: Any, inputs: Mapping[str, Any]) -> frozenset[str]:
    """Return the signatures that a class will have as printed; none for what no recipe trains but one of own classes."""
    if inputs.keys() == {IDS} and writes_texts(cls):
        return family.CAUSAL
    kind = kind_of(cls, inputs)
    return kind.provides if kind else frozenset()


def writes_texts(cls: Any) -> bool:
    """Return whether a class of transformers writes texts, token by token."""
    return _is_of(cls, "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")


def _is_of(cls: Any, mapping: str) -> bool:
    from transformers.models.auto import modeling_auto

    names = getattr(modeling_auto, mapping).values()
    return any(cls.__name__ in (x if isinstance(x, tuple) else (x,)) for x in names)


def class_inputs(cls: Any, arguments: Mapping[str, Any], length: int) -> dict[str, Input]:
    """Return the inputs of a class of transformers: what it mainly reads, and the targets of an encoder-decoder.

    arguments: of its config
    length: tokens of a text
    """
    config = cls.config_class(**copy.deepcopy(dict(arguments)))
    takes = inspect.signature(cls.forward).parameters
    main = cls.main_input_name if cls.main_input_name in takes else IDS
    inputs = {main: _main_input(main, config, length)}
    if TARGET_IDS in takes and getattr(config, "is_encoder_decoder", False):
        inputs[TARGET_IDS] = _text(config, max(1, length // 4))
    if main == IDS and MASK in takes and not provided_as_printed(cls, inputs):
        inputs[MASK] = Input(inputs[IDS].shape, "bool")
    return inputs


def _main_input(name: str, config: Any, length: int) -> Input:
    if name == PIXELS:
        channels, side = PICTURE
        size = getattr(config, "image_size", None) or side
        height, width = size if isinstance(size, list | tuple) else (size, size)
        return Input((getattr(config, "num_channels", channels), height, width))
    bins = getattr(config, "num_mel_bins", None)
    if name == WAVES and bins and hasattr(config, "max_length"):  # of a spectrum, in time
        return Input((config.max_length, bins))
    if name == WAVES:
        return Input((SECOND,))
    if name == SPECTRA:
        return Input((config.num_mel_bins, 2 * config.max_source_positions))
    return _text(config, length)


def _text(config: Any, length: int) -> Input:
    words = getattr(config, "vocab_size", None)
    longest = getattr(config, "max_position_embeddings", length)
    length = min(length, longest // 2) if type(longest) is int else length  # of a part of a table
    return Input((length,), "int32", words if type(words) is int else None)
