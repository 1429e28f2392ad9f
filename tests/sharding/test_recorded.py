"""What the engine plans of every model of the zoo, and of random ones, on several meshes, is what recorded.txt has.

The other tests say why; this one notices what none of them looks at. After a change that is meant, read the difference
that `python -m sharding.test_recorded` (PYTHONPATH=tests:generator:runtime) makes.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from sharding.chains import chain
from sharding.models import ZOO
from sharding.programs import Maker, Style, written

from redco_plan import axes_of_entry, plan_sharding, predict_collectives, row_constraints

RECORDED = Path(__file__).with_name("recorded.txt")
MODELS = [name for name in ZOO if name != "on_devices"]  # which is of the devices that are here
MESHES: dict[str, tuple[dict[str, int], dict[str, object]]] = {
    "model": ({"model": 4}, {"apart": True}),
    "all": ({"data": 2, "fsdp": 2, "model": 2}, {"zero": 1}),
    "odd": ({"fsdp": 3, "model": 3}, {"adapt": True, "apart": True}),
    "sequence": ({"data": 2, "model": 2}, {"sequence_parallel": True, "zero": 1}),
    "stages": ({"stage": 2, "fsdp": 2, "model": 2}, {}),
    "many": ({"fsdp": 2, "expert": 2, "context": 2, "model": 2}, {}),
}
RANDOM = 20  # models of each mesh


def names(mesh: str) -> list[str]:
    """The models that are planned on a mesh."""
    return MODELS * (mesh != "stages") + [f"random {mesh} {number}" for number in range(RANDOM)]


def model(name: str):
    """(forward, params, batch) of a model."""
    if name in ZOO:
        return ZOO[name]
    draw = random.Random(name)
    program = chain(Maker(draw.choice))
    orders = tuple(tuple(range(len(shape))) for shape in program.shapes)
    style = Style(tuple(f"p{i}" for i in range(len(orders))), orders, draw.random() < 0.5)
    return *written(program, style), program.batch


def planned(name: str, mesh: str) -> Iterator[str]:
    """The lines of one model on one mesh, without its sizes of one."""
    sizes, options = MESHES[mesh]
    plan = plan_sharding(*model(name), sizes, **options)
    yield " ".join(f"{axis}={size}" for axis, size in plan.mesh.items() if size > 1)
    yield from plan.warnings
    columns = (plan.partitions, plan.moments, plan.stored, plan.labels, plan.reasons)
    for parameter, spec, moments, stored, labels, reason in zip(
        plan.parameters, *columns, strict=True
    ):
        said = [entries(spec), "" if moments == spec else f"moments {entries(moments)}"]
        said += ["" if stored == parameter.shape else f"stored {stored}"]
        said += [" ".join(labels), reason] if mesh in ("model", "odd", "many") else []
        yield f"{parameter.path}: {'; '.join(filter(None, said))}"
    for one in predict_collectives(plan):
        causes = f"{'+'.join(one.axes)} {','.join(one.classes)}".strip()
        yield f"{one.times} {one.kind} {one.phase} of {one.array}, {one.bytes} B, {causes}"
        if mesh == "all":  # the functions whose products they are of
            yield f"by {' '.join(source.partition(' ')[2] for source in one.sources)}"
    yield from (f"rows of {path}: {entries(x)}" for path, x in row_constraints(plan).items())
    yield from ["in a form of its own"] * plan.rewritten


def entries(spec: jax.sharding.PartitionSpec) -> str:
    free = jax.sharding.PartitionSpec.UNCONSTRAINED
    named = ("free" if x is free else "+".join(axes_of_entry(x)) or "-" for x in spec)
    return " ".join(named) or "whole"


def table() -> dict[tuple[str, str], list[str]]:
    """What recorded.txt has, by model and mesh."""
    lines = (x.partition("\n") for x in RECORDED.read_text().split("\n\n"))
    return {tuple(head.split(" on ")): rest.splitlines() for head, _, rest in lines}


@pytest.mark.parametrize("mesh", MESHES)
def test_what_is_planned_is_recorded(mesh):
    recorded = table()
    assert {name: list(planned(name, mesh)) for name in names(mesh)} == {
        name: recorded[name, mesh] for name in names(mesh)
    }


if __name__ == "__main__":
    every = dict.fromkeys(x for mesh in MESHES for x in names(mesh))
    cases = ((x, mesh) for x in every for mesh in MESHES if x in names(mesh))
    with jax.numpy_rank_promotion("allow"):
        texts = (f"{x} on {mesh}\n" + "\n".join(planned(x, mesh)) for x, mesh in cases)
        RECORDED.write_text("\n\n".join(texts) + "\n")
