"""Parts that are called again, with another program: one in the printed model for each, as rotations of two kinds that one part computes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from torch import fx, nn

from redco_new.pytorch.construct import Instance
from redco_new.pytorch.graph import Traced, is_leaf, rename_targets
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.structures import Structures


def part_again(instance: Instance, traced: Traced) -> tuple[Instance, Traced]:
    """Return a class and its program, of which a part without parameters has a copy for each further program. It is changed in place.

    What has parameters stays one part: these are one.
    """
    same = Structures(traced.module, traced.graphs)
    kinds: dict[str, list[tuple[object, str]]] = {}
    parts: dict[str, str] = {}
    for path in traced.graphs:
        own = own_path(path)
        if path == own or own_path(path.rpartition("@")[0]) != path.rpartition("@")[0]:
            continue  # or it is below one that is called again
        if is_leaf(traced.module, own) or any(
            True for _ in traced.module.get_submodule(own).parameters()
        ):
            continue
        programs = kinds.setdefault(own, [(same.of(own), own)])
        place = next((x for program, x in programs if program == same.of(path)), "")
        if not place:
            place = f"{own}_{len(programs) + 1}"
            programs.append((same.of(path), place))
        if place != own:
            parts[path] = place
    if not parts:
        return instance, traced
    for path, place in parts.items():
        _copy(traced.module, own_path(path), place)
    graphs = {_moved(parts, path): graph for path, graph in traced.graphs.items()}
    for path, graph in traced.graphs.items():
        rename_targets(path, graph, partial(_moved, parts))
    copies = {place: own_path(path) for path, place in parts.items()}
    arguments = dict(instance.arguments)
    for place, own in copies.items():
        arguments |= {
            place + path.removeprefix(own): values
            for path, values in instance.arguments.items()
            if f"{path}.".startswith(f"{own}.")
        }
    return replace(instance, arguments=arguments), replace(traced, graphs=graphs, copies=copies)


def with_copies(copies: Mapping[str, str], buffers: Mapping[str, fx.Graph]) -> dict[str, fx.Graph]:
    """Return how buffers are computed, those of copies too."""
    more = {
        place + name.removeprefix(own): graph
        for place, own in copies.items()
        for name, graph in buffers.items()
        if name.startswith(f"{own}.")
    }
    return {**buffers, **more}


def _copy(module: nn.Module, own: str, place: str) -> None:
    above, _, name = place.rpartition(".")
    holder = module.get_submodule(above)
    if name not in holder._modules:
        holder._modules[name] = copy.deepcopy(module.get_submodule(own))


def _moved(parts: Mapping[str, str], path: str) -> str:
    """Return where a part is now: one that is called again, or one below it."""
    for part, place in parts.items():
        if f"{path}.".startswith(f"{part}."):
            return place + path.removeprefix(part)
    return path
