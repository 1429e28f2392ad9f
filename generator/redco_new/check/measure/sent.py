"""What a compiled step sends: bytes by kind and axis, for which line, and gathers of a whole sequence."""

from __future__ import annotations

import re
from typing import Any

from redco_fit.compiled.hlo import Collective, collectives
from redco_fit.compiled.instructions import shapes
from redco_fit.compiled.places import Place, places
from redco_fit.read import LEAST, axes_between

from redco_new.check.measure.child import Project

Length = int  # of a sequence
# It gathers the gradients of rows of a table where they are fewer than the sums that would be sent.
ROWS = "runtime/nn/embedding.py"
FLOATS = re.compile(r"\b(?:bf|f)\d+\[[\d,]*\]")


def tell_sent(project: Project, text: str, mesh: Any, length: Length) -> None:
    """Tell the bytes of a step, by kind and axis, and for which function; and what is gathered that has a sequence."""
    devices, sums, by_place = mesh.size, dict[str, int](), dict[str, int]()
    lines = places(text, project.folder)
    # Tokens go to the devices of their experts, and come back: which of it XLA gathers is not the model's to say.
    split = splits_sequence(project) or project.has("nn.experts.experts")
    rows = f"{project.package}/{ROWS}::"
    for one in collectives(text, devices):
        if one.bytes < LEAST:
            continue
        what, place = f"{one.kind} over {axes_between(one, mesh.shape)}", where(
            project, lines.get(one.frame)
        )
        size = one.runs * one.bytes
        sums[what] = sums.get(what, 0) + size
        by_place[f"{what} for {place}"] = by_place.get(f"{what} for {place}", 0) + size
        if length and not split and gathers(one, length) and not place.startswith(rows):
            shape = ", ".join(FLOATS.findall(one.type))
            project.fault(
                "gathers", place, f"an {what} of {shape} puts the sequence ({length}) together"
            )
    if length:
        project.tell(measured="gathers")
    project.tell(fact="collectives", value={"bytes": sums, "places": by_place})


def gathers(one: Collective, length: Length) -> bool:
    """Tell whether a collective gathers numbers that have a whole sequence."""
    arrays = " ".join(FLOATS.findall(one.type))
    return one.kind == "all-gather" and any(length in shape for shape in shapes(arrays))


def splits_sequence(project: Project) -> bool:
    """Tell whether ACTIVATIONS of sharding.py split the dim S of an array."""
    for name, spec in getattr(project.modules["sharding"], "ACTIVATIONS", {}).items():
        at = name.rpartition("_")[2].find("S")
        if (
            at >= 0
            and at < len(spec)
            and spec[at] is not None
            and name.rpartition("_")[2].isupper()
        ):
            return True
    return False


def where(project: Project, place: Place | None) -> str:
    """Return path::function of the line of the project that a collective is for; its package where that is not known."""
    return f"{place.path}::{place.function}" if place else project.package
