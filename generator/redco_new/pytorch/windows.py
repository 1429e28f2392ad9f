"""Layers of one class of which some attend to a window, and others to everything: they are told by the one that makes them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from redco_new.pytorch.attention import calls_in
from redco_new.pytorch.construct import Instance
from redco_new.pytorch.graph import Traced
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.structures import class_of


class Window(int):
    """How many tokens a part attends to, as an argument of its class in model.py; 0: all of them."""


def say_windows(instance: Instance, traced: Traced) -> tuple[Instance, Traced]:
    """Return a class and its program, with the window of parts among their arguments, where others of their class have none."""
    parts = {own_path(path): calls_in(graph) for path, graph in traced.graphs.items()}
    windows = {path: calls[0].window for path, calls in parts.items() if len(calls) == 1}
    kinds: dict[Hashable, dict[str, int]] = {}
    for path, window in windows.items():
        kinds.setdefault(class_of(traced.module.get_submodule(path)), {})[path] = window
    arguments = {path: dict(values) for path, values in instance.arguments.items()}
    for mixed in kinds.values():
        if 0 in mixed.values() and any(mixed.values()):
            name = _name(traced, mixed)
            for path, window in mixed.items():
                for above in _all_alike(path, mixed):
                    if above in arguments:
                        arguments[above].pop(name, None)
                        arguments[above][name] = Window(window)  # the last one
    return replace(instance, arguments=arguments), traced


def _name(traced: Traced, mixed: Mapping[str, int]) -> str:
    """Return what the class's author calls the window."""
    parts = (vars(traced.module.get_submodule(path)) for path in mixed)
    return next((name for part in parts for name in part if "window" in name), "window")


def _all_alike(path: str, windows: Mapping[str, int]) -> list[str]:
    """Return a part, and those that it is in of which all have its window."""
    paths = []
    while path:
        if len({x for other, x in windows.items() if f"{other}.".startswith(f"{path}.")}) > 1:
            break
        paths.append(path)
        path = path.rpartition(".")[0]
    return paths
