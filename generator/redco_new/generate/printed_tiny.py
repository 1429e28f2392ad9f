"""The preset tiny of a class of transformers that is printed: bytes for words, digits for images."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
from flax import nnx

from redco_new.generate.own_design import ALL, REMAT, ClassNames
from redco_new.models.tiny import tiny_vocab
from redco_new.own.model import OwnModel
from redco_new.request import Request
from redco_plan import MODEL

DTYPE = "dtype"  # the field of the config that says what is computed in
VOCAB = "vocab_size"  # the field of the config that recipes of texts read, and those of images
SIDE, CHANNELS, CLASSES = "image_size", "num_channels", "num_classes"
# What configs of transformers call the longest text.
POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
DIGITS = 10  # what images are told apart by
SIDES = (32, 48, 64, 96, 128)  # pixels of their sides
# Those of the tokenizer "bytes", which begins no text with a token of its own.
BYTES = {"start_id": 0, "pad_id": 0, "eos_id": 1, "forced_bos_id": -1, "forced_eos_id": 1}
SHORT = 256  # tokens that there are positions for


def tiny_fields(
    request: Request, model: OwnModel, sizes: Mapping[str, Any], unused: int
) -> dict[str, Any]:
    """Return the fields that the preset tiny has otherwise: words for bytes, and positions for its texts.

    unused: how many of its positions no text has
    """
    tiny = dict(model.tiny.changes)
    full, words = sizes.get(VOCAB, 0), dict[str, int]()
    if full:
        words[VOCAB] = min(full, tiny_vocab(full, request.mesh[MODEL]))
    places = {x: min(sizes[x], SHORT + unused) for x in POSITIONS if x in sizes}
    words |= {name: number for name, number in BYTES.items() if name in sizes}
    changes = tiny | words | places | ({DTYPE: "float32"} if DTYPE in sizes else {})
    changes |= {REMAT: ALL} if REMAT in sizes else {}
    return {
        k: value for k, value in changes.items() if k in (DTYPE, REMAT) or value != sizes.get(k)
    }


def tiny_pictures(
    module: ModuleType, names: ClassNames, sizes: Mapping[str, Any], tiny: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that the preset tiny has otherwise: classes for digits, and the smallest side that the model takes."""
    classes = {} if sizes[CLASSES] == DIGITS else {CLASSES: DIGITS}
    for side in (n for n in SIDES if n < sizes[SIDE]):
        changes = {**tiny, **classes, SIDE: side}
        pixels = jax.ShapeDtypeStruct((1, side, side, sizes[CHANNELS]), "float32")

        def build(pixels: Any, changes: dict[str, Any] = changes) -> Any:
            config = getattr(module, names.config)(**changes)
            return getattr(module, names.model)(config, rngs=nnx.Rngs(0))(pixels)

        try:
            jax.eval_shape(build, pixels)
        except (TypeError, ValueError, ZeroDivisionError):  # too few pixels
            continue
        return {**classes, SIDE: side}
    return classes
