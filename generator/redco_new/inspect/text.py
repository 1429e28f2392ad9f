"""A document of `redco inspect` as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from redco_new.inspect import units
from redco_new.inspect.document import LARGE
from redco_new.inspect.schema import Document

if TYPE_CHECKING:
    from rich.table import Table

# Columns, where the output is not a terminal. Rich takes 80 there, which would fold the reasons, so
# that a row is no longer one line for grep.
WIDTH = 200


def print_document(doc: Document) -> None:
    """Print the parameters, the classes, the memory and the collectives of a plan."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(f"{doc['model']} on the mesh {units.mesh_text(doc['mesh'])}\n")
    sections = {
        "Parameters": _parameter_table(doc),
        "Classes: dims that are the same throughout the model": _class_table(doc),
        "Collectives of a step, as predicted": _collective_table(doc),
    }
    for title, table in sections.items():
        console.print(title)
        console.print(table)
        console.print()
    for line in (*_layer_lines(doc), *_memory_lines(doc), *_whole_lines(doc), *_warnings(doc)):
        console.print(line, soft_wrap=True)


def make_grid(*heads: str) -> Table:
    """Return a table without lines, with a column for each head."""
    from rich.table import Table

    return Table(*heads, box=None)


def _parameter_table(doc: Document) -> Table:
    """Return a row for each parameter."""
    table = make_grid("path", "shape", "dims", "spec", "on each device", "reason")
    for row in doc["parameters"]:
        shapes = units.shape_text(row["shape"]), " ".join(row["dims"]), units.spec_text(row["spec"])
        table.add_row(row["path"], *shapes, units.device_text(row), row["reason"])
    return table


def _class_table(doc: Document) -> Table:
    """Return a row for each class."""
    table = make_grid("class", "letter", "size", "parameters", "split", "what it is, and why")
    for row in doc["classes"]:
        count = f"{row['label']} (x{row['count']})" if row["count"] > 1 else row["label"]
        split = units.split_text(row, doc["mesh"])
        meaning = f"{row['what']}; {row['why']}"
        sizes = " ".join(map(str, row["sizes"]))
        table.add_row(count, row["letter"] or "", sizes, str(row["parameters"]), split, meaning)
    return table


def _collective_table(doc: Document) -> Table:
    """Return a row for each collective."""
    table = make_grid("collective", "phase", "over", "for", "array", "bytes", "times", "line")
    for row in doc["collectives"]:
        what = row["kind"], row["phase"], " ".join(row["axes"]), units.cause_text(row), row["array"]
        figures = units.size_text(row["bytes"]), str(row["times"])
        table.add_row(*what, *figures, ", ".join(row["sources"]))
    return table


def _layer_lines(doc: Document) -> Iterator[str]:
    """Yield what each layer sends, what the figures hold for, and what they leave out."""
    lines = doc["layer"]["collectives"]
    if lines:
        yield f"a layer     {lines[0]} ({doc['layer']['layers']} layers)"
    yield from (f"            {line}" for line in lines[1:])
    if doc["sent"]:
        sent = ", ".join(f"{axes} {units.size_text(n)}" for axes, n in doc["sent"].items())
        yield f"links       a device sends over {sent}; the first of them crosses hosts, where there are several"
    if doc["batch"]:
        sizes = ", ".join(f"{letter} {size}" for letter, size in doc["batch"].items())
        yield f"batch       traced with {sizes}; bytes are those of one device's rows"


def _memory_lines(doc: Document) -> Iterator[str]:
    """Yield the size of the model, and what a device needs."""
    memory, arrays = doc["memory"], len(doc["parameters"])
    size = units.size_text
    some = memory["trained"] < memory["elements"]
    yield (
        f"parameters  {memory['elements']:,} in {arrays} arrays,"
        f" {size(memory['all_parameters'])} in all"
        + (f"; {memory['trained']:,} are trained" if some else "")
    )
    yield (
        f"memory      on each device: parameters {size(memory['parameters'])}, gradients"
        f" {size(memory['gradients'])}, Adam's two moments {size(memory['moments'])} (float32),"
        f" together {size(memory['together'])}; activations come on top"
    )


def _whole_lines(doc: Document) -> Iterator[str]:
    """Yield the large parameters that stay whole, or that there are none."""
    for line in doc["whole"]:
        yield f"whole       {line}"
    if not doc["whole"]:
        yield f"whole       nothing over {units.size_text(LARGE)} is left whole"


def _warnings(doc: Document) -> Iterator[str]:
    """Yield the warnings of the plan."""
    yield from (f"warning: {text}" for text in doc["warnings"])
