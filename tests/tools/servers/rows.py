"""What vLLM and SGLang expect of an exported folder, row by row, each with the file of its source and a check of a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import safe_open
from servers.tensors import FAMILIES, SGLANG, VLLM, expected, with_braces

LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length")
DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
PEFT_REFUSED = ("use_dora", "lora_bias", "alora_invocation_tokens", "layer_replication")


@dataclass(frozen=True)
class Folder:
    """An exported folder, read as servers read it. family: of FAMILIES."""

    path: Path
    family: str = ""

    def json(self, name: str) -> dict[str, Any]:
        """Return what is in one of its files."""
        document: dict[str, Any] = json.loads((self.path / name).read_text())
        return document

    @cached_property
    def config(self) -> Any:
        """Its config.json, by transformers."""
        import transformers

        return transformers.AutoConfig.from_pretrained(self.path)

    @cached_property
    def tokenizer(self) -> Any:
        """Its tokenizer, by transformers."""
        import transformers

        return transformers.AutoTokenizer.from_pretrained(self.path, trust_remote_code=False)

    @cached_property
    def tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Its tensors: name -> dtype, shape."""
        heads = {}
        for path in self.path.glob("*.safetensors"):
            with safe_open(path, framework="np") as file:
                for name in file.keys():
                    part = file.get_slice(name)
                    heads[name] = part.get_dtype(), tuple(part.get_shape())
        return heads


@dataclass(frozen=True)
class Row:
    """One expectation. where: server -> the file of its source. holds: raises AssertionError where it does not."""

    what: str
    where: dict[str, str]
    holds: Callable[[Folder], None]


def files_are_safetensors(folder: Folder) -> None:
    assert [*folder.path.glob("*.safetensors")]
    assert not [*folder.path.glob("consolidated*")]  # which would be read as Mistral's own format
    assert not [x for end in ("bin", "pt") for x in folder.path.glob(f"*.{end}")]


def index_names_its_files(folder: Folder) -> None:
    files = {path.name for path in folder.path.glob("*.safetensors")}
    if len(files) > 1:
        where = folder.json("model.safetensors.index.json")["weight_map"]
        assert {*where.values()} == files and where.keys() == folder.tensors.keys()


def class_is_known(folder: Folder) -> None:
    (name,) = folder.json("config.json")["architectures"]
    assert name.endswith(("ForCausalLM", "LMHeadModel")), name


def keys_are_not_refused(folder: Folder) -> None:
    for key, value in FAMILIES[folder.family].keys.items():
        assert getattr(folder.config, key) == value, key


def length_is_stated(folder: Folder) -> None:
    assert any(isinstance(folder.json("config.json").get(name), int) for name in LENGTHS)


def dtype_is_that_of_tensors(folder: Folder) -> None:
    dtypes = {DTYPES.get(dtype, dtype) for dtype, _ in folder.tensors.values()}
    assert dtypes == {folder.json("config.json")["dtype"]} and dtypes <= {*DTYPES.values()}


def tensors_are_those_of_the_class(folder: Folder) -> None:
    theirs = expected(folder.family, folder.config)
    assert {with_braces(name) for name in folder.tensors} == theirs.keys()
    for name, (_, shape) in folder.tensors.items():
        assert shape == theirs[with_braces(name)], name


def layers_are_counted(folder: Folder) -> None:
    numbers = {
        int(part) for name in folder.tensors for part in name.split(".")[:4] if part.isdigit()
    }
    assert numbers == {*range(folder.config.num_hidden_layers)}


def tokenizer_is_read(folder: Folder) -> None:
    ids = folder.tokenizer("What is 3 + 4?")["input_ids"]
    assert ids and max(ids) < folder.config.vocab_size


def end_is_stated(folder: Folder) -> None:
    ends = folder.json("generation_config.json")["eos_token_id"]
    ends = ends if isinstance(ends, list) else [ends]
    assert folder.tokenizer.eos_token_id in ends
    assert all(type(end) is int and 0 <= end < folder.config.vocab_size for end in ends)


def end_of_an_answer_is_stated(folder: Folder) -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    ids = folder.tokenizer.apply_chat_template(chat, return_dict=False)
    after = {*ids[max(i for i, one in enumerate(ids) if "b" in folder.tokenizer.decode([one])) :]}
    ends = folder.json("generation_config.json")["eos_token_id"]
    assert after & {*(ends if isinstance(ends, list) else [ends])}


def chats_have_a_template(folder: Folder) -> None:
    text = folder.tokenizer.get_chat_template(None, tools=None)
    assert isinstance(text, str) and "messages" in text


def adapter_is_plain(folder: Folder) -> None:
    config = folder.json("adapter_config.json")
    assert type(config["r"]) is int and config["r"] > 0 and config["bias"] == "none"
    assert isinstance(config["lora_alpha"], int | float)
    assert not [key for key in PEFT_REFUSED if config.get(key)] and not config.get(
        "modules_to_save"
    )


def adapter_names_modules(folder: Folder) -> None:
    assert isinstance(folder.json("adapter_config.json")["target_modules"], list)
    layers = {name.removesuffix(".weight") for name in FAMILIES[folder.family].tensors}
    for name in folder.tensors:
        assert name.startswith("base_model.model.") and name.endswith(".weight")
        module, kind = name.removeprefix("base_model.model.").removesuffix(".weight").rsplit(".", 1)
        assert kind in ("lora_A", "lora_B") and with_braces(module + ".")[:-1] in layers, name


MODEL = (
    Row(
        "weights are `*.safetensors`, and nothing beside them is `consolidated*`, `*.bin` or `*.pt`",
        {
            VLLM: "model_executor/model_loader/default_loader.py",
            SGLANG: "srt/model_loader/loader.py",
        },
        files_are_safetensors,
    ),
    Row(
        "`model.safetensors.index.json`, where there are several files, names each of them and each tensor",
        {
            VLLM: "model_executor/model_loader/weight_utils.py",
            SGLANG: "srt/model_loader/weight_utils.py",
        },
        index_names_its_files,
    ),
    Row(
        "`architectures` of `config.json` names one class, which the server has",
        {VLLM: "model_executor/models/registry.py", SGLANG: "srt/models/registry.py"},
        class_is_known,
    ),
    Row(
        "keys of `config.json` are as the class asserts: see the families",
        {VLLM: "model_executor/models/gpt2.py", SGLANG: "srt/models/gpt2.py"},
        keys_are_not_refused,
    ),
    Row(
        "`config.json` says how long texts may be, `max_position_embeddings` or `n_positions`",
        {
            VLLM: "transformers_utils/model_arch_config_convertor.py",
            SGLANG: "srt/utils/hf_transformers/common.py",
        },
        length_is_stated,
    ),
    Row(
        "`dtype` of `config.json` is that of all tensors: float32, bfloat16 or float16; float32 is served in 16 bits",
        {VLLM: "config/model.py", SGLANG: "srt/configs/model_config.py"},
        dtype_is_that_of_tensors,
    ),
    Row(
        "tensors are those that the class has a parameter for, all of them, each of its shape: see the families",
        {VLLM: "model_executor/models/utils.py", SGLANG: "srt/models"},
        tensors_are_those_of_the_class,
    ),
    Row(
        "layers are numbered from 0 to `num_hidden_layers` less 1",
        {VLLM: "model_executor/models/utils.py", SGLANG: "srt/layers/utils/common.py"},
        layers_are_counted,
    ),
)
TEXTS = (
    Row(
        "`AutoTokenizer` reads the folder, without code of its own; ids are below `vocab_size`",
        {VLLM: "tokenizers/hf.py", SGLANG: "srt/utils/hf_transformers/tokenizer.py"},
        tokenizer_is_read,
    ),
    Row(
        "`eos_token_id` of `generation_config.json` has the tokenizer's, and what else ends a text",
        {VLLM: "sampling_params.py", SGLANG: "srt/configs/model_config.py"},
        end_is_stated,
    ),
)
CHATS = (
    Row(
        "the tokenizer has a chat template: without one `/v1/chat/completions` is refused",
        {VLLM: "renderers/hf.py", SGLANG: "srt/parser/template_manager.py"},
        chats_have_a_template,
    ),
    Row(
        "what ends an answer by that template is in `eos_token_id` of `generation_config.json`",
        {VLLM: "sampling_params.py", SGLANG: "srt/configs/model_config.py"},
        end_of_an_answer_is_stated,
    ),
)
ADAPTERS = (
    Row(
        "`adapter_config.json` is of LoRA alone: `r`, `lora_alpha`, no bias, no `modules_to_save`, no DoRA",
        {VLLM: "lora/peft_helper.py", SGLANG: "srt/lora/lora_config.py"},
        adapter_is_plain,
    ),
    Row(
        "`target_modules` is a list; tensors are `base_model.model.MODULE.lora_A.weight` and `lora_B.weight`",
        {VLLM: "lora/utils.py", SGLANG: "srt/lora/utils.py"},
        adapter_names_modules,
    ),
)


def check(folder: Folder, rows: tuple[Row, ...]) -> None:
    """Raise AssertionError that names the row that does not hold."""
    for row in rows:
        try:
            row.holds(folder)
        except AssertionError as error:
            raise AssertionError(f"{folder.family}: {row.what}: {error}") from None
