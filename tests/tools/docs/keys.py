"""The page of the keys of --json."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from docs.markdown import table
from redco_fit.reading import Reading, Sent
from redco_fit.search import candidates, compile_best
from redco_new import doctor
from redco_new.check import report as check_report
from redco_new.check import run as check_run
from redco_new.inspect import catalog, recipes, schema
from redco_new.update import report

DOCUMENTS: dict[str, list[Any]] = {  # command -> what its JSON is, and what that holds
    "redco inspect --json": [
        schema.Document,
        schema.ParameterRow,
        schema.ClassRow,
        schema.Memory,
        schema.CollectiveRow,
        schema.LayerTraffic,
    ],
    "redco fit --json": [Reading, Sent],
    "redco fit --search --json": [compile_best.to_dict, candidates.Trial],
    "redco models --json": [catalog.CatalogRow],
    "redco recipes --json": [recipes.RecipeRow],
    "redco update --check --json": [report.drift_of],
    "redco check --json": [check_report.to_dict, check_run.Finding],
    "redco doctor --json": [doctor.Finding],
}


def fields(kind: Any) -> dict[str, str]:
    """Return what a docstring says of each key: `name: text`, at the beginning of a line or after two spaces."""
    text = inspect.cleandoc(kind.__doc__).partition("\n\n")[2]
    parts = re.split(r"(?:^|(?<=\.  ))((?:[a-z_]+, )*[a-z_]+): ", text, flags=re.MULTILINE)
    return {
        key: said
        for keys, said in zip(parts[1::2], parts[2::2], strict=True)
        for key in keys.split(", ")
    }


def keys() -> str:
    """Return the page of the keys of --json, of the types that it is made of."""
    sections = []
    for command, kinds in DOCUMENTS.items():
        sections.append(f"## {command}\n")
        for kind in kinds:
            if kind is not kinds[0]:
                title = inspect.cleandoc(kind.__doc__).partition("\n")[0]
                sections.append(f"`{kind.__name__}`: {title}\n")
            sections.append(table(("key", "holds", "what it is"), key_rows(kind)))
    return "# Keys of --json\n\n" + "\n".join(sections)


def key_rows(kind: Any) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a type, or of a function that makes a dict."""
    said, types = fields(kind), dict[str, str]()
    if isinstance(kind, type):
        types = {k: getattr(v, "__forward_arg__", v) for k, v in kind.__annotations__.items()}
    if kind is Reading:
        yield "`model`", "`str`", "what is trained"
        yield "`fits`", "`bool`", "whether it compiled, and its peak is no more than the device has"
    for key in types or said:
        yield f"`{key}`", f"`{types[key]}`" if key in types else "", said.get(key, "")
