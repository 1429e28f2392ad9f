"""The pages of what config.py holds, and of what the runtime asks of a project's modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import jinja2

from docs.markdown import table
from redco_new.generate.project_model import ProjectModel
from redco_new.models.recipes import RECIPES
from redco_new.render import assets
from redco_runtime.base import contracts

ROOT = Path(__file__).parents[3]
CONFIG = """# Settings

Each field of `config.py` is a flag of `train`, and a key of a file for `--settings`, a feature; a preset is a set of values. These are the sections `optimizer` and
`train` of all projects, here of a gpt-j, and what a recipe has in its section `data`, or in `train`, besides. Those of `model` are the model's own:
`python -m my_project.train --help` has all, with their values in each preset.
"""
CONTRACT = """# The contract of the three functions

What the runtime asks of `pipeline.py` and `weights.py` of a project: `contracts.py` of the runtime, as it is there. The first six functions are needed, the
others are looked for by their names. `loss` returns (losses, weights), arrays of one shape, of which the first dim is the batch; or a third value, a dict of
further such pairs by name, whose weight 0.0 leaves them out of what is learned. `collate` makes a dict of arrays of a list of examples; `predict` returns
a tree of arrays, which `decode` makes texts of.
"""
CONTRACTS = {  # protocol of the runtime -> what it is of
    "Pipeline": "pipeline.py",
    "Scored": "evaluate",
    "Asking": "questions",
    "Sampling": "sample_prompts",
    "Drawn": "draw_predictions",
    "Reported": "report",
    "Counted": "UNIT and count",
    "Ordered": "examples with an order of their own",
    "Accounted": "examples with a history",
    "Weights": "weights.py",
    "OwnWeights": "weights.py of your own class",
}


def settings(source: str, name: str) -> Iterator[tuple[str, ...]]:
    """Yield the fields of a dataclass in Python: flag, type, default, and the comment behind or above it."""
    lines = source.splitlines()
    (node,) = (n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == name)
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and field.value is not None:
            own = lines[field.lineno - 1 : field.end_lineno]
            behind = next((x.partition("  # ")[2] for x in own if "  # " in x), "")
            above = lines[field.lineno - 2].strip()
            said = [above.removeprefix("# ")] if above.startswith("# ") else []
            flag = ast.unparse(field.target).replace("_", "-")
            default, takes = (ast.unparse(x) for x in (field.value, field.annotation))
            yield f"`--{flag}`", f"`{takes}`", f"`{default}`", "; ".join([behind, *said]).strip(
                "; "
            )


def config() -> str:
    """Return the page of the settings of a run: of gpt-j's config.py, and what recipes have besides."""
    emitted = (ROOT / "golden/gpt-j-4/project/my_project/config.py").read_text()
    head = ("flag", "type", "default", "what it is")
    parts = [CONFIG]
    for name in ("Optimizer", "Train"):
        parts += [f"## {name.lower()}\n", table(head, settings(emitted, name))]
    sections = jinja2.Environment(loader=jinja2.FileSystemLoader(assets.templates()))
    for name, recipe in RECIPES.items():
        section = sections.get_template(f"recipes/shared/data/{recipe.data}.jinja")
        module = section.make_module({"model": ProjectModel})  # as a family has it by default
        rows = [*settings(module.data("'TOKENIZER'", 1024), "Data")]
        others = {x.name: x for one in recipe.losses.values() for x in one.train}
        own = others | {x.name: x for x in recipe.train}
        train = "\n".join(["class Train:", *(f"    {x.line}" for x in own.values())])
        rows += settings(train, "Train") if own else []
        parts += [f"## of the recipe {name}\n", table(head, rows)]
    return "\n".join(parts)


def contract() -> str:
    """Return the page of what a project's own modules are asked for, of the protocols of the runtime."""
    source = Path(contracts.__file__).read_text()
    parts = [CONTRACT]
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name in CONTRACTS:
            lines = (ast.unparse(x).replace(", /", "") for x in node.body[1:])
            block = "\n".join(
                line.replace("self, ", "").replace(":\n    ...", ": ...") for line in lines
            )
            parts += [f"## {CONTRACTS[node.name]}\n", f"{ast.get_docstring(node)}\n"]
            parts += [f"```python\n{block}\n```\n"]
    return "\n".join(parts)
