"""The layout of a request's model: the figures of its plan that templates print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec as P
from redco_plan import (
    CONTEXT,
    DATA,
    EXPERT,
    FSDP,
    LETTERS,
    STAGE,
    LayerProduct,
    Plan,
    axes_of_entry,
    inner_axes,
    layer_products,
    row_constraints,
)

from redco_new.errors import RedcoError
from redco_new.generate.context import ProjectLayout, SpecTable
from redco_new.generate.first_runs import FirstRuns
from redco_new.generate.project_model import ProjectModel
from redco_new.generate.remat import saved_sizes
from redco_new.generate.plan import traced_rows
from redco_new.inspect.elements import count_elements
from redco_new.models.program import Program
from redco_new.render.python import print_data
from redco_new.request import Request
from redco_new.request.mesh import REST

NAMED = 3  # parameters that a note names
# What a model of rewards has beside the model that it is like: path -> spec, and path -> why.
SCORE = {"score/kernel": "P(None, None)"}, {"score/kernel": "D 1 | whole: a number for each chat"}


def tiny_notes(plan: Plan, tiny: Plan) -> list[str]:
    """Return what the user should know of the preset tiny, which is laid out as `plan` of the full one.

    tiny: its own layout.
    """
    specs = _by_path(plan, plan.partitions)
    others = [p for p, spec in _by_path(tiny, tiny.partitions).items() if specs.get(p) != spec]
    if not others:
        return []
    named = ", ".join(others[:NAMED]) + (", ..." if len(others) > NAMED else "")
    return [
        f"the preset tiny has the layout of the full model; by itself {len(others)} of its"
        f" {len(tiny.parameters)} parameters would lie otherwise: {named}"
    ]


def check_tiny(plan: Plan, program: Program, tiny: Plan) -> None:
    """Raise RedcoError where the preset tiny cannot have the layout of the full model.

    program: of the preset, and `tiny` its own layout.
    """
    parts, padded = _tiny_parts(plan, program, tiny), _padded(plan)
    shapes = _shapes(program)
    for path, spec in zip((p.path for p in plan.parameters), plan.partitions, strict=True):
        whole, _, index = path.rpartition("/")
        shape = list(shapes.get(path, shapes.get(whole, ())))
        if whole in parts:
            dim, sizes = parts[whole]
            shape[dim] = sizes[int(index)]
        multiples = padded.get(path, (1,) * len(shape))
        for dim, (size, entry, multiple) in enumerate(zip(shape, spec, multiples, strict=False)):
            count = math.prod(plan.mesh[axis] for axis in axes_of_entry(entry))
            if multiple == 1 and size % count:
                what = f"dim {dim} of {path} is {size}, which the full model splits in {count}"
                raise RedcoError("preset tiny", what, "give sizes that divide, in [model.tiny]")


def _shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """Return path -> shape of the parameters of a program."""
    leaves = jax.tree.leaves_with_path(program.params)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): x.shape for path, x in leaves}


def _tiny_parts(plan: Plan, program: Program, tiny: Plan) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Return the parts of fused parameters in the preset tiny: its own, or in the same proportions."""
    shapes, parts = _shapes(program), {}
    for path, (dim, sizes) in plan.apart.items():
        own = tiny.apart.get(path)
        if own and (own[0], len(own[1])) == (dim, len(sizes)):
            parts[path] = own
        elif path in shapes:
            parts[path] = (dim, tuple(n * shapes[path][dim] // sum(sizes) for n in sizes))
    return parts


def layout_context(
    request: Request,
    plan: Plan,
    tiny: tuple[Program, Plan] | None = None,
    branches: Sequence[str] = (),
    scores: Sequence[str] = (),
    model: ProjectModel | None = None,
) -> ProjectLayout:
    """Return what the templates of a project print of a plan.

    branches: the models whose parameters it has, where there are several.
    scores: further ones, which a run may have: they lie as the first one, with a score.
    tiny: the preset tiny, and its own plan, if its sizes are others; None for a family, whose tiny model fits.
    model: as templates have it; None for one of a family.
    """
    ours = request.is_family or model is not None and model.printed
    saves = request.is_family or model is not None and model.saves
    products = layer_products(plan) if saves and not request.is_family else {}
    mesh = plan.mesh | {"data": request.mesh["data"]}
    rows = plan.rows()
    return ProjectLayout(
        mesh=mesh,
        first=FirstRuns.of(mesh),
        axes_legend=_axes_legend(mesh),
        dims_legend=_dims_legend(plan),
        batch_axes=plan.batch_axes,
        rows=plan.batch_axes if plan.layouts.rows_alone and ours else (),
        activations=_texts(_activations(plan, model, products)),
        apart=plan.apart,
        rewritten=plan.rewritten,
        tiny_apart=_tiny_parts(plan, *tiny) if tiny and request.own else None,
        tables=_tables(_by_path(plan, plan.partitions), _reasons(rows), branches, scores),
        moments=_moments(plan) if request.zero else {},
        saved=(saved_sizes(plan, traced_rows(request), products) if saves else {}),
        padded=_padded(plan, branches, scores),
        divided={"sequence_length": over} if (over := _position_axes(request, mesh)) else {},
        total=_in_words(count_elements(rows)),
        trained=_in_words(count_elements([r for r in rows if r["path"] not in plan.frozen])),
        total_per_device=_in_words(sum(math.prod(row["shard_shape"]) for row in rows)),
    )


def _activations(
    plan: Plan, model: ProjectModel | None, products: Mapping[str, LayerProduct]
) -> dict[str, P]:
    """Return name -> layout of what the model names; of an own class, path of a parameter -> of what is computed with it.

    A printed one has attention of the runtime, and a class of transformers its losses, whose arrays have names: queries
    lie as what comes of them.
    """
    if model is None or not model.own_class:
        return plan.activations
    layouts = row_constraints(plan) | {path: one.layout for path, one in products.items()}
    specs = dict(sorted(layouts.items()))
    if not model.printed:
        return specs
    named = {"x_BSD": P(plan.batch_axes, None, None)} if model.hub else {}
    named |= plan.activations
    if attention := named.get("attention"):
        named["heads_BSNH"] = attention
    return named | specs


def _position_axes(request: Request, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """Return the axes that split positions."""
    context = (CONTEXT,) if CONTEXT in mesh else ()
    return (inner_axes(mesh) if request.sequence_parallel else ()) + context


# Axis of a mesh -> what it splits, for people, but for those inside a layer.
SPLITS = {
    DATA: "data splits the batch",
    FSDP: "fsdp the batch and the parameters",
    EXPERT: "expert the batch and the experts",
    CONTEXT: "context the positions and the parameters",
    STAGE: "stage the layers, and like fsdp what is in none",
}


def _axes_legend(mesh: Mapping[str, int]) -> str:
    parts = [text for axis, text in SPLITS.items() if axis in mesh]
    legend = "; ".join([*parts, f"{' and '.join(inner_axes(mesh))} the dims inside a layer"])
    rest = ".\nThe size -1 stands for the devices that the other axes leave"
    return legend + rest if REST in mesh.values() else legend


def _dims_legend(plan: Plan) -> str:
    """Return `D embed, F mlp, ...`: the letters of the dims that parameters have."""
    labels = sorted({label for labels in plan.labels for label in labels})
    return ", ".join(f"{LETTERS.get(label, label)} {label}" for label in labels)


def _texts(specs: Mapping[str, P]) -> dict[str, str]:
    return {name: repr_spec(spec) for name, spec in specs.items()}


def _by_path(plan: Plan, specs: Iterable[P]) -> dict[str, str]:
    """Return path of a parameter -> its spec, as Python, of one spec for each parameter."""
    pairs = zip(plan.parameters, specs, strict=True)
    return {parameter.path: repr_spec(spec) for parameter, spec in pairs}


def _moments(plan: Plan) -> dict[str, str]:
    """Return path -> the spec of what the optimizer keeps, of each parameter that is trained."""
    specs = _by_path(plan, plan.moments)
    return {path: spec for path, spec in specs.items() if path not in plan.frozen}


def _reasons(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return path -> "L D N | columns: makes heads": the dims of each parameter, and why it lies so."""
    texts = {}
    for row in rows:
        dims = " ".join(LETTERS.get(label, label) for label in row["dims"]) or "scalar"
        texts[row["path"]] = f"{dims} | {row['reason']}"
    return texts


def _tables(
    specs: Mapping[str, str],
    reasons: Mapping[str, str],
    branches: Sequence[str],
    scores: Sequence[str],
) -> tuple[SpecTable, ...]:
    """Return the table of each model, of path -> spec and path -> reason of all."""

    def of(branch: str, texts: Mapping[str, str]) -> dict[str, str]:
        start = f"{branch}/" if branch else ""
        return {p.removeprefix(start): text for p, text in texts.items() if p.startswith(start)}

    tables = [SpecTable(name, of(name, specs), of(name, reasons)) for name in branches or ("",)]
    first = tables[0]
    tables[1:] = [
        SpecTable(one.model, {}, {}, first.model) if one.specs and one.specs == first.specs else one
        for one in tables[1:]
    ]
    further = [SpecTable(name, *SCORE, like=first.model) for name in scores]
    return (*tables, *further)


def _padded(
    plan: Plan, branches: Sequence[str] = (), scores: Sequence[str] = ()
) -> dict[str, tuple[int, ...]]:
    """Return path -> the number that each dim is a multiple of, for parameters that are padded."""
    parts = math.prod(plan.mesh[axis] for axis in inner_axes(plan.mesh))
    padded = {
        p.path: tuple(1 if n == size else parts for n, size in zip(stored, p.shape, strict=True))
        for p, stored in zip(plan.parameters, plan.stored, strict=True)
        if stored != p.shape
    }
    copies = {
        path.replace(branches[0], name, 1): sizes
        for path, sizes in padded.items()
        for name in scores
        if path.startswith(f"{branches[0]}/")
    }
    return padded | copies


def repr_spec(spec: P) -> str:
    """Return a PartitionSpec as Python."""
    entries = ("P.UNCONSTRAINED" if axes is P.UNCONSTRAINED else print_data(axes) for axes in spec)
    return f"P({', '.join(entries)})"


def _in_words(count: int) -> str:
    """Return a number of parameters, for people: 6.05 billion."""
    for unit, word in ((1e9, "billion"), (1e6, "million")):
        if count >= unit:
            return f"{count / unit:.2f} {word}"
    return f"{count:,}"
