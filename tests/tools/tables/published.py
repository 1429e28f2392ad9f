"""Writes published.md: how the estimates of redco_fit.search compare with steps that others have published.

make table NAME=published      a minute
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

from redco_fit.hardware import Hardware
from redco_fit.search.estimate import estimate_step
from redco_fit.search.model import Planned
from redco_fit.target import Target, parse_target
from redco_new.generate.plan import plan_program
from redco_new.generate.read import read_model
from redco_new.models.families import gpt2, llama
from redco_new.render.template import Template, open_template
from redco_new.request import Request
from tables.markdown import row as line
from tables.published_rows import ALL, GPT_SIZES, LLAMA_SIZES, ROWS, Row

PAGE = Path(__file__).with_name("published.md")
HEADS = ("estimated ms", "reported ms", "ratio", "source")
INTRODUCTION = """\
# How the estimates of a search compare with steps that others have published

Written by `make table NAME=published`, of [these rows](published_rows.py): dense models on 64 to 2,048 devices, by MaxText, torchtitan, Megatron-LM
and llm-foundry, whose programs are not redco's. Each is estimated on the mesh, the batch and the checkpointing that its source names, as `redco fit
--search` estimates a mesh. Sources that report FLOP/s count attention with all pairs of positions. Latencies, bandwidths and the shares of peaks
that are reached were fixed before the first comparison, from NCCL's own table, nccl-tests, Google's microbenchmarks and an H100 of our own
([links.py](../../../generator/redco_fit/links.py), [hardware.py](../../../generator/redco_fit/hardware.py)), and none was changed since. One fact was
missing, and is known since: v6e multiplies in arrays of 256 x 256 (cloud.google.com/tpu/docs/v6e), of which a head of 128 features fills half, so that
its attention is half as fast. Without it the five rows of v6e that were there were at 0.74 to 0.84, and the middle of all at 17 %; the two of 128 chips
were compared after.

"""
CAUSES = """

What is above 35 %: megatron-32b on 8 x 48 GPUs. Megatron sums gradients over `data` beside the backward pass, and sends activations of `model`
beside their products (`--overlap-grad-reduce`, `--tp-comm-overlap`); of XLA's programs that were read 0.4 of the computing hides what is sent of
gradients, and 0.3 of activations. Eight groups share a host's network, so that a step sends for 440 + 240 ms beside 600 ms of computing.

Below 0.75 is A3, whose network goes through the hosts' memory (GPUDirect-TCPX), and which reaches 492 TFLOP/s on one host already; 0.77 to 0.84
are GPUs under PyTorch, which fuses less. 1.2 and more are v5p and v5e, whose steps reach more of the peak than single products of v6e do.

Not compared: what a project cannot do. Llama 3's 405B has 43 % on 8,192 and 41 % on 16,384 H100 (arXiv 2407.21783, table 4: TP 8, PP 16; 16 M tokens
a step), with pipelines; for that batch the search gives 27 % and 17 % without. So have Megatron-LM's rows from 70B on. Steps of float8, of several
slices, and those below 64 devices are left out; MaxText's v4 too, whose scripts no longer say the model.
"""


def target_of(row: Row) -> Target:
    """Return the machine of a row, with what its source says of it; what was run there has fitted."""
    target = parse_target(row.hardware)
    hardware: Hardware = replace(target.hardware, memory=16 * target.hardware.memory, **row.machine)
    return replace(target, hardware=hardware)


def planned(row: Row, template: Template) -> Planned:
    """Return the model of a row on its mesh."""
    flags = {"mesh": row.mesh, "zero": row.zero, "sequence_parallel": row.sequence_parallel}
    request = Request.from_flags("published", row.model, size=row.size, **flags)
    program = read_model(request, template).program()
    return Planned(request, program, plan_program(request, program), True, row.length)


def predicted(row: Row, model: Planned, target: Target) -> float:
    """Return the seconds of a step by the estimate."""
    remat = row.remat
    if remat == ALL:
        remat = ",".join(one.name for one in model.needs(row.rows).savings)
    one = estimate_step(model, target, row.rows, remat=remat)
    return target.hardware.step_seconds(one.bound_seconds)


def reported(row: Row, model: Planned) -> float:
    """Return the seconds of a step that the source reports."""
    tokens = row.rows * row.length / parse_target(row.hardware).devices
    if row.tokens:
        return tokens / row.tokens
    return tokens * flops_of_a_token(model) / (1e12 * row.tflops)


def flops_of_a_token(model: Planned) -> float:
    """Return the FLOPs of a token's products, forward and backward, attention's with all pairs of positions."""
    traced, length = model.traced
    longer = model.length / length
    every = 0.0
    for dot in model.plan.classes.graph.dots:
        pairs = dot.batch and all(
            v.data and v.parameter is None for v in (dot.lhs, dot.rhs, dot.out)
        )
        every += dot.flops * dot.times * (longer if pairs else 1)
    return 3 * every / (traced * length)


def name_of(row: Row) -> str:
    """Return what the page calls a row."""
    options = ["zero 1"] * bool(row.zero) + ["sequence-parallel"] * row.sequence_parallel
    mesh = row.mesh.replace("=", " ").replace(",", " x ")
    batch = f"B {row.rows}, S {row.length}"
    return ", ".join(
        [f"{row.size}, {row.hardware}", mesh, *options, batch, row.remat.replace(",", "+")]
    )


def read(text: str) -> dict[str, list[str]]:
    """Return {name of a row: its cells} of the page."""
    rows = [part[2:-2].split(" | ") for part in text.splitlines() if part.startswith("| ")]
    return {name: cells for name, *cells in rows[1:]}


def written(seconds: dict[str, tuple[float, float]]) -> str:
    """Return the page, of {name of a row: seconds by the estimate, and by its source}."""

    def errors(kind: str) -> list[float]:
        own = [seconds[name_of(row)] for row in ROWS if row.hardware.startswith(kind)]
        return [abs(ours / theirs - 1) for ours, theirs in own]

    def summary(kind: str, title: str) -> str:
        every = errors(kind)
        middle, most = (f"{100 * one:.0f} %" for one in (statistics.median(every), max(every)))
        return f"{title} {middle} in the middle of {len(every)}, {most} at most"

    parts = [summary("h100", "GPUs"), summary("v", "TPUs"), summary("", "all")]
    lines = [f"Error of the seconds of a step: {'; '.join(parts)}.", ""]
    lines += [line("step", HEADS), "|---" * (1 + len(HEADS)) + "|"]
    for row in ROWS:
        ours, theirs = seconds[name_of(row)]
        cells = [f"{1e3 * ours:.0f}", f"{1e3 * theirs:.0f}", f"{ours / theirs:.2f}", row.source]
        lines.append(line(name_of(row), cells))
    return INTRODUCTION + "\n".join(lines) + CAUSES


def add_sizes() -> None:
    """Make the families know the sizes of these rows too."""
    llama.FAMILY.sizes.update(LLAMA_SIZES)
    gpt2.FAMILY.sizes.update(GPT_SIZES)


def compare(row: Row, template: Template) -> tuple[float, float]:
    """Return the seconds of a row by the estimate, and by its source."""
    model = planned(row, template)
    return predicted(row, model, target_of(row)), reported(row, model)


def main() -> None:
    add_sizes()
    with open_template() as template:
        seconds = {name_of(row): compare(row, template) for row in ROWS}
    PAGE.write_text(written(seconds))


if __name__ == "__main__":
    main()
