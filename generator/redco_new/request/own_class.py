"""A class of the user's own, as it is asked for: by flags, a file of --config, or redco.toml."""

import keyword
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redco_new.errors import RedcoError
from redco_new.request.toml import key_text, read_toml, value_text

DTYPES = ("float32", "bfloat16", "float16", "int32", "uint8", "bool")
BATCH = "B"
CLASS = "class"  # in [model], among the arguments: no argument can have the name of a keyword
TINY = "tiny"  # in [model], a table: the arguments that the preset of that name has instead
TABLES = ("model", "inputs", "output", "method")
NONE = "None"  # in [inputs], since TOML has none
REFERENCE = re.compile(r"(?P<place>[^:]+):(?P<name>[^:]+)")
SHAPE = 'give it as {shape = ["B", 28, 28, 1], dtype = "float32"}'


@dataclass(frozen=True)
class Input:
    """An input of a model.

    shape: of one example, without B.
    below: ids are less than this; None where the user does not say so.
    value: the array of one example, a numpy array of the user's function; None where only its shape is clear.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    below: int | None = None
    value: Any = field(default=None, compare=False)

    @property
    def data(self) -> dict[str, Any]:
        """The input as plain data; `check_input` gives an equal Input back."""
        table = {"shape": [BATCH, *self.shape], "dtype": self.dtype}
        return table if self.below is None else table | {"below": self.below}


@dataclass(frozen=True)
class Constant:
    """An argument of a call that is the same for all examples.

    value: None, plain data, or the number that fills an array.
    shape: of the array; None for what is no array.
    """

    value: Any
    shape: tuple[int, ...] | None = None
    dtype: str = ""

    @property
    def data(self) -> Any:
        """The constant as plain data; `check_argument` gives an equal Constant back."""
        if self.shape is None:
            return NONE if self.value is None else self.value
        return {"shape": [*self.shape], "dtype": self.dtype, "value": self.value}


@dataclass(frozen=True)
class OwnClass:
    """What a user says of their class: `[model]`, `[inputs]`, `output` and `method` of redco.toml.

    arguments: of the constructor, plain data.
    inputs: by the names that the call has for them; Inputs, Constants, dicts and tuples of them.
    example: a function that gives both, or "".
    output: which of its results is the model's, or "".
    method: that is called, or "" for the class itself.
    tiny: the arguments that the preset tiny has instead.
    source: what says so, for messages: the flag, or the path of a redco.toml.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    example: str = ""
    output: str = ""
    method: str = ""
    tiny: Mapping[str, Any] = field(default_factory=dict)
    source: str = field(default="--config", compare=False)


def has_dtype(model: str, own: OwnClass | None) -> bool:
    """Return whether a model computes in --dtype: one of a family, or a class of transformers."""
    return bool(model) and (own is None or model.startswith("transformers:"))


def is_own(model: str) -> bool:
    """Return whether --model names a class: it is in a file or a module, and neither can have a colon."""
    return ":" in model


def is_file(reference: str) -> bool:
    """Return whether a reference is to something in a file, rather than in a module."""
    return reference.rpartition(":")[0].endswith(".py")


def check_reference(where: str, value: Any, example: str = "nets.py:Net") -> str:
    """Return `value` if it is FILE.py:NAME or MODULE:NAME. Raises RedcoError if it is not."""
    match = REFERENCE.fullmatch(value) if isinstance(value, str) and value.isprintable() else None
    if not match:
        raise RedcoError(where, f"{value!r} is not FILE.py:NAME", f"give for example {example}")
    place, name = match["place"], match["name"]
    stem = [Path(place).stem] if is_file(value) else place.split(".")
    for word in [name, *stem]:
        if not word.isidentifier() or not word.isascii() or keyword.iskeyword(word):
            what = f"{word!r} of {value!r} is no name that Python can import"
            raise RedcoError(where, what, f"rename it; for example {example}")
    return value


def relative_to(folder: Path, reference: str) -> str:
    """Return a reference as typed in the working folder, as it is typed in `folder`."""
    if not is_file(reference):
        return reference
    path, _, name = reference.rpartition(":")
    return f"{path_from(folder, path)}:{name}"


def path_from(folder: Path, path: str) -> str:
    """Return a path as typed in the working folder, as it is typed in `folder`."""
    return os.path.relpath(os.path.realpath(path), os.path.realpath(folder))


def read_config(path: str) -> dict[str, Any]:
    """Return the tables of a file of --config. Raises RedcoError if it cannot be read."""
    where = f"--config {path}"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise RedcoError(where, f"cannot be read: {error.strerror}", "give a TOML file") from error
    except ValueError as error:  # of a path too
        raise RedcoError(where, f"not TOML: {error}", "mend that line") from error
    table = read_toml(where, text)
    if unknown := sorted(set(table) - set(TABLES)):
        what = f"unknown key {unknown[0]!r}"
        raise RedcoError(where, what, f"the keys are {', '.join(TABLES)}")
    return table


def from_flags(config: str | None, example: str | None, folder: Path) -> OwnClass:
    """Return what --config and --example, as they were typed, say. Raises RedcoError, which names the flag."""
    if example is not None:
        check_reference("--example", example, "nets.py:example")
        example = relative_to(folder, example)
    table = {} if config is None else read_config(config)
    if isinstance(table.get("model"), dict) and CLASS in table["model"]:
        where = f"--config {config}: [model]"
        raise RedcoError(where, f"{CLASS!r} is what --model says", "leave it out")
    return parse(f"--config {config}", table, example or "")


def from_toml(source: str, table: Mapping[str, Any]) -> OwnClass:
    """Return what a redco.toml says. Raises RedcoError, which names `source` and the key."""
    if CLASS not in table["model"]:
        what = f"[model] has no {CLASS}"
        raise RedcoError(source, what, f'add {CLASS} = "nets.py:Net"')
    check_reference(f"{source}: [model] {CLASS}", table["model"][CLASS])
    example = table.get("example", "")
    if example:
        check_reference(f"{source}: example", example, "nets.py:example")
    return replace(parse(source, table, example), source=source)


def parse(where: str, table: Mapping[str, Any], example: str) -> OwnClass:
    """Return what the keys of TABLES say, but for the class itself. Raises RedcoError, which names the key."""
    arguments, inputs = table.get("model", {}), table.get("inputs", {})
    for key, value in (("model", arguments), ("inputs", inputs)):
        if not isinstance(value, dict):
            raise RedcoError(f"{where}: {key}", f"{value!r} is not a table", f"write [{key}]")
        printed = key == "inputs" and table.get("via")  # which are recorded beside the function
        if example and value.keys() - {CLASS, TINY} and not printed:
            what = f"[{key}] and a function {example} both say what it is"
            raise RedcoError(f"{where}: {key}", what, "leave one of them out")
    output = table.get("output", "")
    if not isinstance(output, str | int) or isinstance(output, bool):
        raise RedcoError(f"{where}: output", f"{output!r} is no key or index", "give one of them")
    method = table.get("method", "")
    if not isinstance(method, str) or method and not method.isidentifier():
        raise RedcoError(f"{where}: method", f"{method!r} is no name of a method", "give one")
    tiny = arguments.get(TINY) if isinstance(arguments.get(TINY), dict) else {}
    full = {k: v for k, v in arguments.items() if k != CLASS and v is not tiny}
    return OwnClass(
        {k: check_plain(f"{where}: [model] {k}", v) for k, v in full.items()},
        {name: check_argument(f"{where}: [inputs] {name}", v) for name, v in inputs.items()},
        example,
        str(output),
        method,
        {k: check_plain(f"{where}: [model.{TINY}] {k}", v) for k, v in tiny.items()},
    )


def check_plain(where: str, value: Any) -> Any:
    """Return `value`, lists as tuples, if Python's source and TOML can both hold it. Raises RedcoError."""
    if isinstance(value, list):
        return tuple(check_plain(where, item) for item in value)
    if isinstance(value, dict):
        return {key: check_plain(where, item) for key, item in value.items()}
    if (
        not isinstance(value, bool | int | float | str)
        or value in (math.inf, -math.inf)
        or value != value
    ):
        what = f"{value} is not a number, a text, true or false, or a list or table of them"
        raise RedcoError(where, what, "give such a one, or the function that makes it: --example")
    return value


def check_argument(where: str, value: Any) -> Any:
    """Return an entry of [inputs]: an Input, a Constant, a dict or tuple of them. Raises RedcoError."""
    if isinstance(value, dict) and not value.keys() & {"shape", "dtype", "below", "value"}:
        return {key: check_argument(f"{where}.{key}", item) for key, item in value.items()}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return tuple(check_argument(where, item) for item in value)
    if isinstance(value, dict):
        return check_input(where, value)
    return Constant(None if value == NONE else check_plain(where, value))


def check_input(where: str, value: dict[str, Any]) -> Input | Constant:
    """Return an array of [inputs]. Raises RedcoError if it is no shape and dtype."""
    if value.keys() - {"shape", "dtype", "below", "value"}:
        raise RedcoError(where, f"{value!r} is not a shape and a dtype", SHAPE)
    shape, dtype, below = value.get("shape"), value.get("dtype", "float32"), value.get("below")
    without = isinstance(shape, list) and shape[:1] != [BATCH] and "value" in value
    if not isinstance(shape, list) or not without and shape[:1] != [BATCH]:
        todo = (
            f"{SHAPE}; or if it is the same for all examples, add value = 0, say: all its numbers"
        )
        raise RedcoError(where, f"the shape {shape!r} does not begin with {BATCH!r}", todo)
    sizes = shape if without else shape[1:]
    if dtype not in DTYPES:
        raise RedcoError(where, f"unknown dtype {dtype!r}", f"choose one of {', '.join(DTYPES)}")
    bad = [size for size in sizes if type(size) is not int or size < 1]
    if bad:
        what = f"the shape {shape!r} has {', '.join(map(repr, bad))}, which is no size"
        like = [size if size == BATCH or size not in bad else 128 for size in shape]
        todo = f"give whole numbers of 1 or more: {{shape = {value_text(like)}, dtype = {value_text(dtype)}}}"
        raise RedcoError(where, what, todo)
    if below is not None and (type(below) is not int or below < 1):
        raise RedcoError(where, f"below = {below!r} is no number of ids", "give 1 or more")
    if not without:
        return Input(tuple(sizes), dtype, below)
    if not isinstance(value["value"], bool | int | float):
        raise RedcoError(
            where, f"value = {value['value']!r} is no number", "give one, true or false"
        )
    return Constant(value["value"], tuple(sizes), dtype)


def argument_data(entry: Any) -> Any:
    """Return an entry of [inputs] as plain data; `check_argument` gives an equal entry back."""
    if isinstance(entry, Mapping):
        return {key: argument_data(x) for key, x in entry.items()}
    if isinstance(entry, tuple):
        return [argument_data(x) for x in entry]
    return entry.data


def to_toml(model: str, own: OwnClass) -> str:
    """Return [model] and [inputs]; `parse` gives an equal OwnClass back."""
    lines = ["[model]", f"{CLASS} = {value_text(model)}"]
    lines += [f"{key_text(k)} = {value_text(value)}" for k, value in own.arguments.items()]
    if own.tiny:
        lines += ["", f"[model.{TINY}]"]
        lines += [f"{key_text(k)} = {value_text(value)}" for k, value in own.tiny.items()]
    if own.inputs:
        lines += ["", "[inputs]"]
        lines += [f"{key_text(k)} = {value_text(argument_data(x))}" for k, x in own.inputs.items()]
    return "\n".join(lines)
