"""A document of `redco inspect` as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from redco_new.inspect import units
from redco_new.inspect.document import LARGE

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 200  # columns, where the output is not a terminal


def show(doc: dict[str, Any]) -> None:
    """Print the parameters, the classes, the memory and the collectives of a plan."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(f"{doc['model']} on the mesh {units.mesh(doc['mesh'])}\n")
    sections = {
        "Parameters": parameters(doc),
        "Classes: dims that are the same throughout the model": classes(doc),
        "Collectives of a step, as predicted": collectives(doc),
    }
    for title, table in sections.items():
        console.print(title)
        console.print(table)
        console.print()
    for line in (*layer(doc), *memory(doc), *whole(doc), *warnings(doc)):
        console.print(line, soft_wrap=True)


def grid(*heads: str) -> Table:
    from rich.table import Table

    return Table(*heads, box=None)


def parameters(doc: dict[str, Any]) -> Table:
    table = grid("path", "shape", "dims", "spec", "on each device", "reason")
    for row in doc["parameters"]:
        shapes = units.shape(row["shape"]), " ".join(row["dims"]), units.spec(row["spec"])
        table.add_row(row["path"], *shapes, units.on_device(row), row["reason"])
    return table


def classes(doc: dict[str, Any]) -> Table:
    table = grid("class", "letter", "size", "parameters", "split", "what it is, and why")
    for one in doc["classes"]:
        count = f"{one['label']} (x{one['count']})" if one["count"] > 1 else one["label"]
        split = units.over(one, doc["mesh"])
        told = f"{one['what']}; {one['why']}"
        sizes = " ".join(map(str, one["sizes"]))
        table.add_row(count, one["letter"] or "", sizes, str(one["parameters"]), split, told)
    return table


def collectives(doc: dict[str, Any]) -> Table:
    table = grid("collective", "phase", "over", "for", "array", "bytes", "times", "line")
    for one in doc["collectives"]:
        what = one["kind"], one["phase"], " ".join(one["axes"]), units.cause(one), one["array"]
        figures = units.size(one["bytes"]), str(one["times"])
        table.add_row(*what, *figures, ", ".join(one["sources"]))
    return table


def layer(doc: dict[str, Any]) -> Iterator[str]:
    """What each layer sends, what the figures hold for, and what they leave out."""
    lines = doc["layer"]["collectives"]
    if lines:
        yield f"a layer     {lines[0]} ({doc['layer']['layers']} layers)"
    yield from (f"            {line}" for line in lines[1:])
    if doc["batch"]:
        sizes = ", ".join(f"{letter} {size}" for letter, size in doc["batch"].items())
        yield f"batch       traced with {sizes}; bytes are those of one device's rows"


def memory(doc: dict[str, Any]) -> Iterator[str]:
    held = {name: units.size(n) for name, n in doc["memory"].items() if name != "elements"}
    count, arrays = doc["memory"]["elements"], len(doc["parameters"])
    yield f"parameters  {count:,} in {arrays} arrays, {held['all_parameters']} in all"
    yield (
        f"memory      on each device: parameters {held['parameters']}, gradients"
        f" {held['gradients']}, Adam's two moments {held['moments']} (float32), together"
        f" {held['together']}; activations come on top"
    )


def whole(doc: dict[str, Any]) -> Iterator[str]:
    for line in doc["whole"]:
        yield f"whole       {line}"
    if not doc["whole"]:
        yield f"whole       nothing over {units.size(LARGE)} is left whole"


def warnings(doc: dict[str, Any]) -> Iterator[str]:
    yield from (f"warning: {text}" for text in doc["warnings"])
