"""Numbers that a class makes of its arguments in a way that sizes.py has no expression of, as a width rounded up: each is a field of the config."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from redco_new.errors import RedcoError
from redco_new.own.source import FLAGS
from redco_new.pytorch.classes import Classes, print_classes
from redco_new.pytorch.graph import Traced
from redco_new.pytorch.notes import NUMBERS
from redco_new.pytorch.printed import Field
from redco_new.pytorch.printed_class import Made, Printed, Probe
from redco_new.pytorch.refusal import Unsaid
from redco_new.pytorch.setting import Setting
from redco_new.pytorch.sizes import Atom, Number, express

MOST = 12  # such numbers of a class; one of more is no class that its reader would want to change


def trace_other_inputs(
    settings: Sequence[Setting], trace: Callable[[Setting], Made], own: Made
) -> tuple[Setting, Made]:
    """Return the user's arguments with inputs of another size, and another batch, traced: a number that is another one there follows from those.

    own: as the user's inputs are. Where others have no program, or another one, as of a table that is as large as its inputs, these stay.
    """
    user, other, *_ = settings
    setting = Setting(user.arguments, other.inputs, other.batch)
    with suppress(RedcoError):
        instance, traced = trace(setting)
        if _steps(traced) == _steps(own[1]):
            return setting, (instance, traced)
    setting = Setting(user.arguments, user.inputs, other.batch)
    return setting, trace(setting)


def _steps(traced: Traced) -> dict[str, list[str]]:
    """Return the operations of each part."""
    return {k: [str(node.target) for node in x.nodes] for k, x in traced.graphs.items()}


def print_numbers(
    probes: Sequence[Probe],
    program: Sequence[Any],
    settings: Sequence[Setting],
    small: Setting,
    fields: Sequence[Field],
) -> tuple[Classes, Printed, list[Field]]:
    """Return all classes of a program, that of the whole, and the fields of numbers that follow from no size.

    program: what else print_classes asks for. settings: of each probe. fields: that there are

    Raises Unsaid where one follows from the inputs, or is another one in instances of a class.
    """
    more: list[Field] = []
    names = {f.name for f in fields}  # and of numbers
    for _ in range(MOST + 1):
        try:
            classes, whole = print_classes(probes, *program)
        except Unsaid as error:
            unsaid, values, same = error, error.by_probe, settings[0].arguments
            rows = zip(values, settings, strict=False)
            if len({value for value, setting in rows if setting.arguments is same}) != 1:
                raise
            name = _free(error.name, names)
            names.add(name)
            sizes = [Atom(x, tuple(p.sizes[x] for p in probes)) for x in probes[0].sizes]
            is_field = express(Number(values), sizes) is None  # or a part lacks a size of the whole
            if is_field:
                kind, place = type(values[0]).__name__, [*settings].index(small)
                more.append(Field(name, "", kind, values[0], values[place]))
            pairs = zip(probes, values, strict=True)
            probes = [_with_number(probe, name, value, is_field) for probe, value in pairs]
            continue
        if more:
            shown = ", ".join(f.name for f in more)
            classes.note(NUMBERS.format(name=whole.name, fields=shown))
        return classes, whole, more
    raise unsaid


def _with_number(probe: Probe, name: str, value: int | float, is_field: bool) -> Probe:
    """Return a probe each of whose parts is made with a number more, which its config has as a field or makes of others."""
    arguments = probe.instance.arguments
    paths = [path for path in {**probe.traced.graphs, **arguments} if path]
    more = {path: {**arguments.get(path, {}), name: value} for path in paths}
    instance = replace(probe.instance, arguments={**arguments, **more})
    own = {f"config.{name}": value} if is_field else {}
    return replace(probe, instance=instance, sizes={**probe.sizes, **own})


def _free(name: str, names: Collection[str]) -> str:
    """Return a name for a field that no other one has."""
    name = f"model_{name}" if name in FLAGS else name
    return next(x for x in (name, *(f"{name}_{i}" for i in range(2, 99))) if x not in names)
