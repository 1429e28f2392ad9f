"""Writes bonsai.md: what becomes of jax-ml/bonsai's models, as they are published.

    python -m classes.bonsai_table FOLDER [NAME ...]

FOLDER: a checkout of its repository, which no package on the registry has. Each family is planned at a
published size on abstract arrays (`redco inspect`), and trained for three steps at a small one. The records
are in .classes/bonsai: a family that has one of the same commit is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from classes.project import DEVICES, Result, commit, folder, run, train
from classes.table import read_records, row, run_of

TABLE = Path(__file__).with_name("bonsai.md")
EXAMPLES = Path(__file__).with_name("bonsai_examples.py")
INTRODUCTION = """\
# Models of jax-ml/bonsai

Written by `make table NAME=bonsai ROWS=folder`, of the source as it was published on 27 March 2026 (commit 3628425).
{run} *planned*: parameters at a
published size, and the share of them that each of 4 shards holds. *called by*: a class of
[the examples](bonsai_examples.py) where the model's own call takes what is no array of a batch.
*losses*: of three steps at a small size, on 4 virtual CPU devices.
"""
COLUMNS = ("family", "class", "called by", "planned", "held", "losses", "what fails, and why")
NO_CALL = (
    "SAM2Base has no call: its predictor sets images and keeps features between Python functions"
)


@dataclass(frozen=True)
class Family:
    """A family: its class, or the one of bonsai_examples.py that calls it, and what it learns.

    output: which array of the output it learns, where there are several
    """

    name: str
    cls: str
    recipe: str
    called_by: str = ""
    output: str = ""

    @property
    def model(self) -> str:
        """As --model takes it."""
        if self.called_by:
            return f"{EXAMPLES}:{self.called_by}"
        return f"bonsai.models.{self.name}.modeling:{self.cls}"


FAMILIES = (
    Family("convnext", "ConvNeXt", "classify", "ConvNeXt"),
    Family("densenet121", "DenseNet", "classify"),
    Family("dinov3", "Dinov3ViTModel", "regress", output="pooler_output"),
    Family("efficientnet", "EfficientNet", "classify", "EfficientNet"),
    Family("gemma3", "Gemma3Model", "lm", "Gemma3"),
    Family("llada", "LLaDAModel", "lm", "LLaDA"),
    Family("mamba2", "Mamba2ForCausalLM", "lm"),
    Family("qwen3", "Qwen3", "lm", "Qwen3"),
    Family("qwen3_vl", "Qwen3VLForConditionalGeneration", "lm", "Qwen3VL"),
    Family("resnet", "ResNet", "classify"),
    Family("sam2", "SAM2Base", ""),
    Family("umt5", "UMT5Model", "regress"),  # its call gives hidden states
    Family("unet", "UNet", "regress"),
    Family("vae", "VAE", "regress"),
    Family("vgg19", "VGG", "classify"),
    Family("vit", "ViTClassificationModel", "classify", "ViT"),
    Family("vjepa2", "VJEPA2ForVideoClassification", "classify"),
    Family("whisper", "Whisper", "regress", "Whisper"),
)


def ask(place: Path, family: Family, program: str, function: str, *more: str) -> Result:
    """Run `redco inspect` or `redco-new` for a family."""
    flags = ["--recipe", family.recipe, "--example", f"{EXAMPLES}:{function}"]
    if family.output:
        (place / "output.toml").write_text(f'output = "{family.output}"\n')
        flags += ["--config", "output.toml"]
    return run(place, "-c", program, *more, *flags, "--shards", str(DEVICES))


def plan(family: Family, place: Path) -> tuple[str, str, str]:
    """Return the parameters of a family at its published size, the share that is held, and the fault."""
    program = "from redco_new.cli import redco_main; redco_main()"
    more = ("inspect", family.model, "--json")
    result = ask(place, family, program, f"{family.name}_full", *more)
    if result.code:
        return "no", "-", result.last
    found = json.loads(result.said[result.said.index("{") :])
    whole = sum(row["bytes"] for row in found["parameters"])
    share = found["memory"]["parameters"] / whole
    return f"{whole / 4e6:.0f} M", f"{100 * share:.0f} %", ""


def cells(family: Family, place: Path) -> list[str]:
    """Measure a family; return its row."""
    if not family.recipe:
        return [family.name, family.cls, "-", "no", "-", "-", NO_CALL]
    size, held, fault = plan(family, place)
    program = "from redco_new.cli import new_main; new_main()"
    made = ask(place, family, program, family.name, "small", "--model", family.model)
    losses: list[float] = []
    if made.code:
        fault = fault or made.last
    else:
        trained, losses = train(place / "small")
        fault = fault or (trained.last if trained.code else "")
    said = ", ".join(f"{loss:.3f}" for loss in losses) or "no"
    return [family.name, family.cls, family.called_by or "-", size, held, said, fault]


def record(family: Family, file: Path) -> dict[str, Any]:
    """Return {"commit": of what was measured, "cells": of the row}, kept in `file`, measured if it is not."""
    if file.exists() and (kept := json.loads(file.read_text()))["commit"] == commit():
        return kept
    with tempfile.TemporaryDirectory() as place:
        new = {"commit": commit(), "cells": cells(family, Path(place))}
    file.write_text(json.dumps(new))
    return new


def written(records: dict[str, dict[str, Any]]) -> str:
    """Return the whole file."""
    rows = [row(records[family.name]["cells"]) for family in FAMILIES if family.name in records]
    introduction = INTRODUCTION.format(run=run_of(records))
    return "\n".join([introduction, row(COLUMNS), "|---" * len(COLUMNS) + "|", *rows, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    os.environ["REDCO_BONSAI"] = str(arguments.folder.resolve())
    place = folder() / "bonsai"
    place.mkdir(exist_ok=True)
    for family in FAMILIES:
        if family.name in (arguments.names or [family.name]):
            print(row(record(family, place / f"{family.name}.json")["cells"]), flush=True)
    TABLE.write_text(written(read_records(place)))


if __name__ == "__main__":
    main()
