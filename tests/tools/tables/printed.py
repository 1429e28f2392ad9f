"""Writes printed.md, the table of printed classes beside the families that have the same models.

make table NAME=printed [ROW ...]      an hour on two cores, which nothing else is to have

A family's model is created twice, as its family and by `--via torch`. With names of rows, others stay.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redco_fit import Job, Reading, compile_step, parse_target
from redco_new.project.manifest import read_manifest
from tables.markdown import row as line
from tables.starts import rows_of

TABLE = Path(__file__).with_name("printed.md")
WAYS = ("", "torch")  # --via: the family, the printed class
TARGET, MESH = "h100:8", {"fsdp": 4, "model": 2}
CREATED, STEPS = "Created and compiled", "A step on a CPU"
COLUMNS = {
    CREATED: ("", "creation s", "lines", "compile s", "step ms", "peak GB", "sent GB"),
    STEPS: ("", "family ms", "printed", "PyTorch eager", "torch.compile"),
}
INTRODUCTION = """\
# Printed classes beside families

Written by `make table NAME=printed`: a model that redco has a family of, and the same one printed from its class of transformers (`--via torch`).
Each cell that has two figures has the family's first.

"""
NOTES = {
    CREATED: f"""\
Creation: CPU seconds of `redco-new`. Lines: of model.py. The rest as `redco fit` has it of the preset `full` for {TARGET}, fsdp 4 x model 2, 16 examples,
nothing dropped: CPU seconds of tracing, lowering and compiling, its estimate of a step, and of each device the peak, and the bytes of the arrays that are sent.

gpt2 xl has 25 heads, which model 2 does not divide: q, k and v are whole in both. CPU seconds of gpt2 xl and of gemma2 9b were measured beside other work, those of mixtral on a slower machine.
""",
    STEPS: """\
The median of ten steps (AdamW) of a checkpoint of four layers and 256 features, 8 texts of 256 tokens in float32, on two cores; over the family's.
""",
}


@dataclass(frozen=True)
class Row:
    """A model. size: of the family. length: tokens of an example; None where it has none."""

    model: str
    size: str
    length: int | None = 2048

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.model} {self.size}"


ROWS = (
    Row("llama", "7b"),
    Row("gpt-j", "6b"),
    Row("gpt2", "xl", 1024),
    Row("gpt-neox", "20b"),
    Row("opt", "6.7b"),
    Row("mistral", "7b-v0.3"),
    Row("qwen2", "2.5-7b"),
    Row("qwen3", "8b"),
    Row("olmo2", "7b"),
    Row("phi-3", "medium-4k"),
    Row("gemma2", "9b"),
    Row("gemma3", "1b"),
    Row("mixtral", "8x7b"),
    Row("qwen3-moe", "30b-a3b"),
    Row("t5", "large", 512),
    Row("bart", "large", 512),
    Row("bert", "large", 512),
    Row("vit", "large", None),
)
WIDTH = {"vocab_size": 2048, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
GATED = WIDTH | {"intermediate_size": 688, "num_key_value_heads": 4}
ROUTED = GATED | {"num_experts": 8, "moe_intermediate_size": 128, "head_dim": 64}
# A class of transformers, and its sizes.
SMALL = {
    "llama": ("LlamaForCausalLM", GATED),
    "gpt2": ("GPT2LMHeadModel", WIDTH | {"n_positions": 512}),
    "gpt-j": ("GPTJForCausalLM", WIDTH | {"n_positions": 512, "rotary_dim": 32}),
    "qwen3-moe": ("Qwen3MoeForCausalLM", ROUTED),
}
DROPS = ("attn_pdrop", "embd_pdrop", "resid_pdrop", "dropout", "attention_dropout")
DROPS += ("hidden_dropout_prob", "attention_probs_dropout_prob", "activation_dropout")
DROPS += ("dropout_rate", "hidden_dropout", "classifier_dropout")


def used(who: int = resource.RUSAGE_CHILDREN) -> float:
    """Return the CPU seconds of the processes that have ended."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def created(name: str, model: str, folder: Path, *flags: str) -> float:
    """Create a project in a process of its own; return its CPU seconds."""
    before = used()
    command = [str(Path(sys.executable).with_name("redco-new")), name, "--model", model, *flags]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
    return used() - before


def compiled(folder: Path, row: Row) -> tuple[float, Reading]:
    """Return the CPU seconds of compiling a project's step, and what the compiler says of it."""
    fields = read_manifest(folder)[0].request.get("model", {})
    own = fields if isinstance(fields, Mapping) else {}
    rates = {name: 0.0 for name in DROPS if own.get(name)}
    before = used()
    job = Job(MESH, 16, row.length, rates)
    reading = compile_step(folder, parse_target(TARGET), job)
    assert not reading.refused, reading.refused
    return used() - before, reading


def created_rows(row: Row) -> dict[str, list[str]]:
    """Return name of a row -> its cells, of a published size."""
    found: list[list[float]] = []
    with tempfile.TemporaryDirectory() as place:
        for via in WAYS:
            name = f"of_{via or 'family'}"
            flags = [
                "--size",
                row.size,
                "--mesh",
                "fsdp=4,model=2",
                *(["--via", via] if via else []),
            ]
            seconds = created(name, row.model, Path(place), *flags)
            project = Path(place) / name
            lines = (project / name / "model.py").read_text().count("\n")
            cpu, reading = compiled(project, row)
            sent = sum(one.bytes for one in reading.collectives)
            figures = [1e3 * reading.step_seconds, reading.peak_bytes / 1e9, sent / 1e9]
            found.append([seconds, lines, cpu, *figures])
    return {row.name: [f"{one:,.3g} / {other:,.3g}" for one, other in zip(*found, strict=True)]}


def step_rows(model: str) -> dict[str, list[str]]:
    """Return name of a row -> its cells: seconds of a step, as families, printed classes and PyTorch take it."""
    name, sizes = SMALL[model]
    rates = dict.fromkeys(DROPS, 0.0)
    here = Path(__file__).parents[1]
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])

    def measured(*arguments: str) -> float:
        command = [sys.executable, "-m", "tables.printed_row", *arguments]
        env = os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
        output = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
        return statistics.median(json.loads(output.stdout.splitlines()[-1]))

    with tempfile.TemporaryDirectory() as place:
        checkpoint = Path(place) / "checkpoint"
        measured("write", str(checkpoint), name, json.dumps(sizes | rates))
        projects = {}
        for via in WAYS:
            project = projects[via] = f"of_{via or 'family'}"
            flags = ["--dtype", "float32", *(["--via", via] if via else [])]
            created(project, str(checkpoint), Path(place), *flags)
        runs = [("project", f"{place}/{one}") for one in projects.values()]
        runs += [("eager", str(checkpoint)), ("compile", str(checkpoint))]
        seconds = [measured(*one) for one in runs]
    own, *others = seconds
    return {model: [f"{1e3 * own:.0f}", *(f"{one / own:.2f}" for one in others)]}


def written(sections: Mapping[str, Mapping[str, list[str]]]) -> str:
    """Return the whole file. sections: title -> name of a row -> its cells."""
    text = INTRODUCTION
    for title, rows in sections.items():
        text += f"## {title}\n\n{NOTES[title]}\n"
        text += line(*COLUMNS[title][:1], COLUMNS[title][1:]) + "\n"
        text += "|---" * len(COLUMNS[title]) + "|\n"
        text += "".join(line(name, cells) + "\n" for name, cells in rows.items()) + "\n"
    return text.rstrip("\n") + "\n"


def main(names: list[str]) -> None:
    before = TABLE.read_text() if TABLE.exists() else ""
    sections: dict[str, dict[str, Any]] = {title: rows_of(before, title) for title in COLUMNS}
    todo = [(CREATED, one.name, created_rows, one) for one in ROWS]
    todo += [(STEPS, model, step_rows, model) for model in SMALL]
    for title, name, measure, of in todo:
        if not names or name in names or name.split()[0] in names:
            sections[title] |= measure(of)  # type: ignore[operator]
            order = [x for section, x, *_ in todo if section == title]
            sections[title] = dict(sorted(sections[title].items(), key=lambda x: order.index(x[0])))
            TABLE.write_text(written(sections))
            print(line(name, sections[title][name]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
