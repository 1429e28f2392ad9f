"""The fields of the printed config: arguments of the class that are numbers, and what recipes of images ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from redco_new.own.source import FLAGS
from redco_new.pytorch.kinds import IMAGES, LABELS, PAIRS, PIXELS, Kind
from redco_new.pytorch.printed import Field
from redco_new.pytorch.refusal import refuse
from redco_new.pytorch.setting import Name, Setting
from redco_new.pytorch.sizes import Atom

# What begins a target, and what does where that is not said.
START, STARTS = "decoder_start_token_id", ("bos_token_id", "pad_token_id")


def class_fields(
    settings: Sequence[Setting], small: Setting, names: Mapping[str, str]
) -> list[Field]:
    """Return the numbers of the config: arguments of the class that the probes could change, and what those hold by name.

    names: of arguments that are called otherwise there
    """
    fields = list[Field]()
    sizes = [name for name in settings[0].names() if name[0] == "model"]
    # Of two of one name the outer has it, and the inner that of what holds it before its own.
    for name in sorted(sizes, key=len):
        values = [setting.get(name) for setting in settings]
        if len(set(values)) > 1:
            key = str(name[-1])
            field = f"model_{key}" if key in FLAGS else names.get(key, key)
            if field in {f.name for f in fields}:
                field = "_".join(map(str, name[-2:]))
            if field not in {f.name for f in fields}:
                kind = type(values[0]).__name__
                fields.append(Field(field, argument_of(name), kind, values[0], small.get(name)))
    return fields


def argument_of(name: Name) -> str:
    """Return how a field says which argument it is: "width", or "config.width" of an object."""
    return ".".join(map(str, name[1:]))


def value_of(field: Field, setting: Setting) -> Any:
    """Return the value of a field that is an argument, in a setting."""
    return setting.get(("model", *field.argument.split(".")))


def of_fields(atoms: Sequence[Atom], probes: Sequence[Mapping[str, Any]]) -> list[Atom]:
    """Return numbers of arguments, those of an object as model.py's one config has them, which is handed on in its place.

    probes: the fields of the config in each
    """
    values = {x: tuple(probe[x] for probe in probes) for x in probes[0]}
    fields = [Atom(x.removeprefix("config."), row) for x, row in values.items()]
    own, objects = list[Atom](), [x.text.partition(".")[0] for x in atoms if "." in x.text]
    for atom in atoms:
        argument, _, key = atom.text.partition(".")
        same = [x for x in fields if x.values == atom.values and f"_{x.text}".endswith(f"_{key}")]
        same.sort(key=lambda x: len(x.text))  # its own name before that with what holds it
        own += [replace(x, text=f"{argument}.{x.text}") for x in same[:1]] if key else [atom]
    more = [replace(x, text=f"{name}.{x.text}") for name in objects[:1] for x in fields]
    return own + [x for x in more if x not in own]


def asked_fields(
    kind: Kind | None, fields: Sequence[Field], full: Setting, small: Setting, cls: Any
) -> list[Field]:
    """Return the fields that a recipe asks for, and that no size of the class is."""
    if kind is PAIRS:
        ids = _special_ids(kind, cls.config_class(**full.arguments))
        there = {f.name for f in fields}
        return [Field(x, key, "int", n, n) for x, (key, n) in ids.items() if x not in there]
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


def _special_ids(kind: Kind, config: Any) -> dict[str, tuple[str, int]]:
    """Return the tokens that targets begin and end with: field -> its key in a config, and the token; -1 for none.

    A target begins with what `generate` of transformers begins it with. Raises RedcoError where nothing says so.
    """
    ids = {}
    for key, name in kind.fields.items():
        value = getattr(config, key, None)
        if key == START and not isinstance(value, int):
            value = next((x for x in map(config.__dict__.get, STARTS) if isinstance(x, int)), None)
        if value is None and key.startswith("forced"):
            value = -1
        if type(value) is not int:
            raise refuse("", f"its config has {value!r} for {key}", "give it one token")
        if value >= 0 or hasattr(config, key):
            ids[name] = (key, value)
    return ids
