"""What both sides begin with: a random model of transformers, a tokenizer of letters, rows. Of the environment .parity."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from cases import Case, rows_of
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

SPECIAL = ("<pad>", "<eos>", "<unk>", "<mask>", "<s>", "<user>", "<assistant>", "<end>")
LETTERS = "abcdefghijklmnopxy "
# With {% generation %}, by which TRL and ours know what the assistant says.
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<end>"
    "{% endgeneration %}{% else %}{{ m.content }}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
FRAMES = {"Bert": "<s> $A <eos>", "Bart": "<s> $A <eos>", "T5Fo": "$A <eos>"}
SPREAD = 0.05  # of what is added to each parameter, so that no norm or bias is one or zero


def tokenizer_of(case: Case) -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer with a token a letter, which frames texts as those of the model do."""
    ids = {token: number for number, token in enumerate((*SPECIAL, *LETTERS))}
    own = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    letters = pre_tokenizers.Split(Regex("."), "isolated")
    apart = [pre_tokenizers.WhitespaceSplit()] if case.architecture.startswith("Bert") else []
    own.pre_tokenizer = pre_tokenizers.Sequence([*apart, letters])  # no spaces, as with BERT's
    own.decoder = decoders.Fuse()
    if frame := FRAMES.get(case.architecture[:4]):
        marks = [("<s>", 4), ("<eos>", 1)]
        own.post_processor = processors.TemplateProcessing(single=frame, special_tokens=marks)
    names = {"pad": 0, "eos": 1, "unk": 2, "mask": 3, "bos": 4, "cls": 4, "sep": 1}
    tokens: dict[str, Any] = {f"{name}_token": SPECIAL[number] for name, number in names.items()}
    tokens["additional_special_tokens"] = [*SPECIAL[5:]]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, chat_template=TEMPLATE, model_max_length=128, **tokens
    )


def write_model(case: Case, folder: Path, seed: int) -> None:
    """Write random weights of a case, and its tokenizer or image processor."""
    torch.manual_seed(seed)
    kind = getattr(transformers, case.architecture)
    sizes = dict(case.sizes)
    if "Image" not in case.architecture:
        sizes = {
            "vocab_size": len(SPECIAL) + len(LETTERS),
            "pad_token_id": 0,
            "eos_token_id": 1,
        } | sizes
        tokenizer_of(case).save_pretrained(folder)
    else:
        size = {"height": sizes["image_size"], "width": sizes["image_size"]}
        transformers.ViTImageProcessorPil(size=size).save_pretrained(folder)
    model = kind(kind.config_class(**sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * SPREAD)
    model.save_pretrained(folder)


def write_adapter(case: Case, folder: Path, base: Path) -> None:
    """Write an adapter of PEFT whose two matrices are both random."""
    import peft

    torch.manual_seed(2)
    kind = getattr(transformers, case.architecture)
    settings = peft.LoraConfig(
        task_type="CAUSAL_LM", target_modules="all-linear", **case.options["adapter"]
    )
    model = peft.get_peft_model(kind.from_pretrained(base), settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter) * SPREAD)
    model.save_pretrained(folder)


def write_pictures(rows: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Write pictures as PNG, and return rows with their paths."""
    from PIL import Image

    folder.mkdir()
    named = []
    for number, row in enumerate(rows):
        path = folder / f"{number:02}.png"
        Image.frombytes("RGB", (16, 16), bytes.fromhex(row["pixels"])).save(path)
        named.append({"image": str(path), "label": row["label"]})
    return named


def prepare(case: Case, folder: Path) -> None:
    """Write all that a case begins with to a folder: model, teacher, adapter, rows.jsonl."""
    write_model(case, folder / "model", 0)
    if case.by == "distil":
        write_model(case, folder / "teacher", 1)
    if "adapter" in case.options:
        write_adapter(case, folder / "adapter", folder / "model")
    rows = rows_of(case)
    if case.by == "image":
        rows = write_pictures(rows, folder / "pictures")
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "rows.jsonl").write_text(text)
