"""A model as one file that llama.cpp, and what is built on it, opens: GGUF, by the package gguf of llama.cpp."""

import argparse
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ...base.messages import UserError
from ..export import Tensors, Write
from .changes import Change
from .metadata import metadata, rope_factors
from .vocabulary import vocabulary

FORMATS = {"gguf": "F16", "gguf-q8_0": "Q8_0"}
WHOLE = ("_norm.weight", "ffn_gate_inp.weight", "position_embd.weight")  # float32 in llama.cpp too
ENDS = {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"}
MORE_ENDS = ("eot", "eom")  # where more tokens end a text


def gguf(arch: str, change: Change) -> Callable[[str], Write | None]:
    """Return a parser of --format, for a model that llama.cpp calls `arch`; None is safetensors."""

    def parse(text: str) -> Write | None:
        if text == "safetensors":
            return None
        if text not in FORMATS:
            names = ", ".join(("safetensors", *FORMATS))
            raise argparse.ArgumentTypeError(f"{text!r} is none: choose one of {names}")
        if not find_spec("gguf"):
            raise argparse.ArgumentTypeError(f"{text} is written by a package: pip install gguf")
        return partial(write_gguf, arch=arch, change=change, kind=FORMATS[text])

    return parse


def write_gguf(
    folder: Path | None,
    config: Mapping[str, Any],
    tensors: Tensors,
    tokenizer: Any,
    generation: Mapping[str, Any] | None,
    *,
    arch: str,
    change: Change,
    kind: str,
) -> None:
    """Write model-KIND.gguf into `folder`, tensor by tensor; all processes take part. Raises UserError."""
    from gguf import GGML_QUANT_VERSION, GGUFWriter, LlamaFileType

    if tokenizer is None:
        raise UserError(
            "--format: a GGUF has its tokenizer in it, and there is none: give --tokenizer to train.py"
        )
    with closing(GGUFWriter(None, arch)) as writer:
        facts = metadata(config, arch)
        writer.add_type("model")
        writer.add_file_type(LlamaFileType[f"MOSTLY_{kind}"])
        writer.add_quantization_version(GGML_QUANT_VERSION)
        for key, value in facts.items():
            add(writer, f"{arch}.{key}", value)
        add_vocabulary(writer, tokenizer, config["vocab_size"], generation)
        parts = [
            Part(name, names, tensors, change, config, kind)
            for name, names in stored_names(tensors, arch, facts["block_count"])
        ]
        factors = rope_factors(config)
        if factors is not None:
            writer.add_tensor_info(
                "rope_freqs.weight", factors.shape, factors.dtype, factors.nbytes
            )
        for part in parts:
            writer.add_tensor_info(part.name, part.shape, np.dtype("f4"), part.bytes, part.type)
        if folder:
            writer.write_header_to_file(folder / f"model-{kind.lower()}.gguf")
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            if factors is not None:
                writer.write_tensor_data(factors)
        for part in parts:
            value = part.read()
            if folder:
                writer.write_tensor_data(value)


def add(writer: Any, key: str, value: Any) -> None:
    """Add a value of a GGUF by its type: numbers have 32 bits."""
    kinds = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}
    getattr(writer, f"add_{kinds[type(value)]}")(key, value)


def add_vocabulary(
    writer: Any, tokenizer: Any, size: int, generation: Mapping[str, Any] | None
) -> None:
    """Add the tokens, the ids that end a text, whether one begins it, and the template of chats. Raises UserError."""
    words = vocabulary(tokenizer, size)
    writer.add_tokenizer_model(words.model)
    writer.add_tokenizer_pre(words.cut)
    writer.add_token_list(words.tokens)
    writer.add_token_types(words.kinds)
    if words.scores:
        writer.add_token_scores(words.scores)
        writer.add_add_space_prefix(words.prefix)
    writer.add_token_merges(words.merges)
    ids = {end: getattr(tokenizer, name) for end, name in ENDS.items()}
    stops = (generation or {}).get("eos_token_id") or []
    others = [x for x in (stops if isinstance(stops, list) else [stops]) if x != ids["eos"]]
    for end, value in {**ids, **dict(zip(MORE_ENDS, others, strict=False))}.items():
        if value is not None:
            add(writer, f"tokenizer.ggml.{end}_token_id", value)
    begun = tokenizer("a")["input_ids"][0]
    writer.add_add_bos_token(ids["bos"] is not None and begun == ids["bos"])
    writer.add_add_eos_token(False)  # a prompt goes on
    if isinstance(template := tokenizer.chat_template, str):
        writer.add_chat_template(template)


def stored_names(tensors: Tensors, arch: str, layers: int) -> list[tuple[str, list[str]]]:
    """Return llama.cpp's name of each tensor, with the tensors that are stacked in it: one, or those of all experts."""
    from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, get_tensor_name_map

    names: dict[str, list[str]] = {}
    table = get_tensor_name_map({MODEL_ARCH_NAMES[x]: x for x in MODEL_ARCH}[arch], layers)
    for name in tensors.heads:
        one = re.sub(r"\.experts\.\d+\.", ".experts.", name)
        if not (stored := table.get_name(one, (".weight", ".bias"))):
            raise UserError(
                f"--format: llama.cpp has no {name} in {arch}: weights.py is not its own any more"
            )
        names.setdefault(stored, []).append(name)
    return [*names.items()]


@dataclass(frozen=True)
class Part:
    """A tensor of a GGUF, which is read when it is asked for.

    name: llama.cpp's. names: of what is stacked in it.
    """

    name: str
    names: list[str]
    tensors: Tensors
    change: Change
    config: Mapping[str, Any]
    kind: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that it is stored with."""
        head = np.broadcast_to(np.False_, self.tensors.heads[self.names[0]].shape)
        shape = self.change(self.names[0], head, self.config).shape
        return (len(self.names), *shape) if ".experts." in self.names[0] else shape

    @property
    def type(self) -> Any:
        """Its type in ggml: float32 of vectors and what is in WHOLE; blocks of 32, where they fit."""
        from gguf import GGMLQuantizationType

        if len(self.shape) < 2 or self.name.endswith(WHOLE):
            return GGMLQuantizationType.F32
        return GGMLQuantizationType[self.kind if self.shape[-1] % 32 == 0 else "F16"]

    @property
    def bytes(self) -> int:
        """Its bytes."""
        from gguf import quant_shape_to_byte_shape

        return int(np.prod(quant_shape_to_byte_shape(self.shape, self.type)))

    def read(self) -> np.ndarray:
        """Return it as it is stored. Raises UserError for numbers that its type cannot hold."""
        from gguf.quants import quantize

        values = (
            self.change(name, self.tensors[name].astype(np.float32), self.config)
            for name in self.names
        )
        whole = np.stack([*values]).reshape(self.shape)
        if np.abs(whole).max() > np.finfo(np.float16).max and self.type.name != "F32":
            raise UserError(
                f"--format: {self.name} has numbers that no float16 holds: export as safetensors"
            )
        return np.ascontiguousarray(quantize(whole, self.type))
