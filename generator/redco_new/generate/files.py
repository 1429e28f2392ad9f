"""The files of a project: those of its model and recipe, those that templates print, what these need of the runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from redco_plan import CONTEXT, Plan

from redco_new.errors import RedcoError
from redco_new.generate.context import ProjectContext
from redco_new.generate.design import Design
from redco_new.generate.layout import check_tiny, layout_context, tiny_notes
from redco_new.generate.plan import plan_program
from redco_new.models.program import Program
from redco_new.render.carried import carried
from redco_new.render.own_runtime import AT_HOME, with_own_runtime
from redco_new.render.owners import owner, with_header
from redco_new.render.template import Template
from redco_new.request import RING
from redco_new.request.features import FEATURES, paths
from redco_new.request.launch import without_others

# What the runtime and the files of every project import. huggingface-hub as old as the transformers
# of users' own classes has it: 4.57 wants one below 1.
REQUIREMENTS = (
    "flax>=0.12.6",
    "huggingface-hub>=0.34",
    "jax>=0.10",
    "numpy>=2.2",
    "optax>=0.2.8",
    "orbax-checkpoint>=0.12",
    "pytest>=9",
    "safetensors>=0.8",
    "tqdm>=4.70",
)


def project_context(design: Design, program: Program, plan: Plan) -> ProjectContext:
    """Return what the templates of a project print.

    program: the loss of its model, which its user may have changed since `design` was printed.
    """
    tiny, notes = None, [*design.notes, *design.notes_of_a_run()]
    if design.tiny:
        small = design.loss(design.tiny)
        tiny = small, plan_program(design.request, small)
        check_tiny(plan, *tiny)
        notes += tiny_notes(plan, tiny[1])
    return ProjectContext(
        package=design.request.package,
        request=design.request,
        model=design.model,
        recipe=design.recipe,
        layout=layout_context(
            design.request,
            plan,
            tiny,
            design.branches,
            design.scores,
            model=design.model,
        ),
        stateful=design.stateful or program.stateful,
        notes=tuple(notes),
        requirements=tuple(sorted({*REQUIREMENTS, *design.packages})),
    )


def _features_beside(
    features: Iterable[str], needed: Collection[str], package: str
) -> dict[str, str]:
    """Return files that import what features bring, of packages of the runtime that a project needs anyway."""
    folders = {path.rpartition("/")[0] for path in needed}
    modules = (x for name in features if not FEATURES[name].printed for x in FEATURES[name].modules)
    return {
        path: f"import {AT_HOME}.{module}"
        for module in modules
        for path in paths(package, [module])
        if path.rpartition("/")[0] in folders
    }


def print_files(template: Template, design: Design, context: ProjectContext) -> dict[str, str]:
    """Return {path: text} of a project, without .redco/; sorted, with LF and a final newline.

    Raises RedcoError if a template fails, or writes a file that has no owner or is there already.
    """
    package = context.package
    printed = {
        path: with_header(path, text, owner(path, package))
        for path, text in template.print_project(context).items()
    }
    printed = without_others(printed, design.request.launch)
    own = {**design.files, **printed}
    needed = carried(own, package)
    scored = any(one.name == "best" and one.default for one in context.recipe.settings)
    features = {*design.request.features, *(["best"] if scored else [])}
    beside = _features_beside(sorted(features), needed, package)
    if CONTEXT in design.request.mesh:
        beside[f"{package}/nn.context"] = f"import {AT_HOME}.nn.context"
    if design.request.context_attention == RING:
        beside[f"{package}/nn.ring"] = f"import {AT_HOME}.nn.ring"
    others = {**design.files, **carried({**own, **beside}, package)}
    for name in design.request.features:
        if not others.keys() & {*paths(package, FEATURES[name].modules)}:
            what = f"{name}: nothing of {design.request.model_name} uses it"
            raise RedcoError("features", what, "leave it out")
    if twice := sorted(printed.keys() & others.keys()):
        what = "the template writes a file that redco copies as it is"
        raise RedcoError(twice[0], what, "remove one of the two")
    files = sorted({**printed, **others}.items())
    return {path: with_own_runtime(path, text, package) for path, text in files}
