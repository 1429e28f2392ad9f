"""The table of collectives: records of worker.py as Markdown, and its cells back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redco_fit.compiled.hlo import KINDS

TITLES = {"h100": "H100 (XLA for GPU)", "v5e": "TPU v5e (libtpu)"}
COLUMNS = {"layer": "ours, a layer", "ours": "ours", "hand": "by hand", "redco": "Redco 0.4.23"}
INTRODUCTION = """\
# What the compiled programs send

Written by `make table NAME=collectives`: one training step (forward and backward) of each model of
[the zoo](../../sharding/models.py), compiled without devices for 4 of them, `model` 4. A batch of 4 x 512
tokens whole on each, width 1024, parameters in float32, activations in bfloat16.

A cell: the collectives of one run, loops by their trips; the bytes that a device sends, in units of
an all-reduce of the residual stream (B,S,D); the share of the parameters that a device holds, 25 %
at best. Collectives of less than 1 kB are left out. *remat*: warnings of an involuntary full
rematerialization. AR all-reduce, AG all-gather, RS reduce-scatter (AG + RS send what one AR sends),
A2A all-to-all, CP collective-permute.

"Ours" is `plan_sharding(..., apart=True)`, which stores the parts of a fused kernel apart. "By hand" is
[Megatron's plan](../../compiled/hand.py) for the parameters as they are. "Redco" is its own `get_sharding_rules`, which is shown the parameters under
[the names](../../compiled/redco_names.py) that Flax has for them: under the zoo's it leaves them whole. `llama` and
`transposed` have torch's kernels, (out, in), and Redco takes all kernels for (in, out).
`scanned` and `unrolled` are parallel blocks; `gpt2` and `linen` compute their layers twice; the
embedding of `nnx` makes the residual stream float32: 2 units where others have 1.
The models `*_apart` are [those whose fused kernels](../../compiled/apart.py) keep their parts apart.
"""


def cell(record: dict[str, Any]) -> str:
    """A record as text: "4 AR, 2 CP; 4.33; 25 %"."""
    counts = [f"{count:g} {KINDS[kind]}" for kind, count in record["counts"].items()]
    parts = [", ".join(counts) or "none", f"{record['units']:.2f}"]
    if "held" in record:
        parts.append(f"{100 * record['held']:.0f} %")
    if record.get("remats"):
        parts.append(f"{record['remats']} remat")
    return "; ".join(parts)


def written(records: list[dict[str, Any]]) -> str:
    """The whole file."""
    cells = {(r["target"], r["model"], r["layout"]): cell(r) for r in records}
    lines = [INTRODUCTION]
    for target, title in TITLES.items():
        lines += [
            f"## {title}",
            "",
            row("model", COLUMNS.values()),
            "|---" * (1 + len(COLUMNS)) + "|",
        ]
        for model in dict.fromkeys(model for of, model, _ in cells if of == target):
            lines.append(row(model, [cells.get((target, model, key), "") for key in COLUMNS]))
        lines.append("")
    return "\n".join(lines)


def row(first: str, rest: Iterable[str]) -> str:
    return "| " + " | ".join([first, *rest]) + " |"


def read(text: str) -> dict[tuple[str, str, str], str]:
    """{(target, model, layout): cell} of the file."""
    cells = {}
    for target, title in TITLES.items():
        section = text.split(f"## {title}\n")[1].split("\n## ")[0]
        for line in section.strip().splitlines()[2:]:
            model, *rest = (part.strip() for part in line.strip("|").split("|"))
            cells |= {(target, model, k): c for k, c in zip(COLUMNS, rest, strict=True) if c}
    return cells
