"""The fields of the printed config: arguments of the class that are numbers, and what recipes of images ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redco_new.own.source import FLAGS
from redco_new.pytorch.kinds import IMAGES, LABELS, PIXELS, Kind
from redco_new.pytorch.printed import Field
from redco_new.pytorch.setting import Setting


def class_fields(
    settings: Sequence[Setting], small: Setting, names: Mapping[str, str]
) -> list[Field]:
    """Return the numbers of the config: arguments of the class that the probes could change.

    names: of arguments that are called otherwise there
    """
    fields = []
    for name in settings[0].names():
        values = [setting.get(name) for setting in settings]
        if name[0] == "model" and len(name) == 2 and len(set(values)) > 1:
            argument = str(name[1])
            field = f"model_{argument}" if argument in FLAGS else names.get(argument, argument)
            kind = type(values[0]).__name__
            fields.append(Field(field, argument, kind, values[0], small.get(name)))
    return fields


def asked_fields(
    kind: Kind | None, fields: Sequence[Field], full: Setting, small: Setting
) -> list[Field]:
    """Return the fields that a recipe asks for, and that no size of the class is."""
    if kind is not IMAGES:
        return []
    places = {"num_channels": 0, "image_size": 1}
    rows = [(x.inputs[PIXELS].shape, x.arguments[LABELS]) for x in (full, small)]
    names = [name for name in kind.fields.values() if name not in {f.name for f in fields}]
    values = {
        name: [shape[places[name]] if name in places else labels for shape, labels in rows]
        for name in names
    }
    return [Field(name, "", "int", *pair) for name, pair in values.items()]
