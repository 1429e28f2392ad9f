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
from redco_new.generate.layout import plan_program
from redco_new.generate.read import read_model
from redco_new.models.families import gpt2, llama
from redco_new.render.template import Template, open_template
from redco_new.request import Request
from tables.markdown import row as line
from tables.published_rows import ALL, GPT_SIZES, LLAMA_SIZES, ROWS, Row

PAGE = Path(__file__).with_name("published.md")


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
    every = total = 0.0
    for dot in model.plan.classes.graph.dots:
        pairs = dot.batch and all(
            v.data and v.parameter is None for v in (dot.lhs, dot.rhs, dot.out)
        )
        every += dot.flops * dot.times * (longer if pairs else 1)
    return 3 * every / (traced * length)


def main() -> None:
    llama.FAMILY.sizes.update(LLAMA_SIZES)
    gpt2.FAMILY.sizes.update(GPT_SIZES)
    with open_template() as template:
        for row in ROWS:
            model, target = planned(row, template), target_of(row)
            ours, theirs = predicted(row, model, target), reported(row, model)
            print(
                row.model,
                row.size,
                row.hardware,
                row.mesh,
                f"{ours:.3f} {theirs:.3f} {ours / theirs:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
