"""A run's settings in a file of TOML: any flag of the training program, by its name, in sections or not.

[optimizer]
learning_rate = 1e-4  # as --learning-rate 1e-4
"""

import argparse
import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..base.messages import UserError
from ..base.files import local_path

HEAD = "# What this run was given: --settings takes it again, beside another --workdir."
NOT_IN_FILES = ("h", "help", "settings")
NOT_IN_RUNS = ("workdir", "settings", "preview")  # of what a run was given, what says where it is

Actions = Mapping[str, argparse.Action]  # by the name of the flag, of which some have two
Sections = Mapping[str, Mapping[str, str]]  # section of config.py -> field -> name of its flag


def parse_with_file(
    parser: Any, fields: Iterable[tuple[str, str, str, tuple[str, ...]]]
) -> tuple[argparse.Namespace, str]:
    """Return what the command line and the file of --settings say, and all that they say as such a file.

    Where both say it, the command line. parser: a Parser of loop.command, with all flags.
    fields: (section, field, name of its flag, further flags) of each setting. Raises UserError.
    """
    sections: dict[str, dict[str, str]] = {}
    for section, field, flag, others in fields:
        names = (field, *(name.lstrip("-") for name in others))
        sections.setdefault(section, {}).update(dict.fromkeys(names, flag))
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--settings", type=local_path)
    early.error = parser.error  # type: ignore[method-assign]
    file = early.parse_known_args()[0].settings
    values = read_settings(file, parser.actions, sections) if file else {}
    for action in parser.actions.values():
        action.required &= action.dest not in values
    args = parser.parse_args(namespace=argparse.Namespace(**values))
    values = {k: v for k, v in vars(args).items() if v is not None and k not in NOT_IN_RUNS}
    return args, print_settings(values, sections)


def read_settings(path: Path, actions: Actions, sections: Sections) -> dict[str, Any]:
    """Return what a file sets, by the name that argparse has for it. Raises UserError."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--settings: {path}: {error.strerror}: give a file of TOML") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"--settings: {path} is no TOML: {error}") from None
    flags = {name: name for name in actions if name not in NOT_IN_FILES}
    read = dict[str, Any]()
    for key, value in values.items():
        inside = value.items() if isinstance(value, dict) else [(key, value)]
        if isinstance(value, dict) and key not in sections:
            raise _unknown(path, f"[{key}]", key, sections, "section of config.py")
        for name, one in inside:
            where, names = (key, sections[key]) if isinstance(value, dict) else ("", flags)
            flag = names.get(name.replace("-", "_"))
            if flag is None:
                raise _unknown(path, f"[{where}] {name}" if where else name, name, names, "setting")
            action = actions[flag]
            if action.dest in read:
                raise UserError(f"--settings: {path}: {name}: it is set twice: leave one out")
            read[action.dest] = _parse(path, name, one, action)
    return read


def print_settings(values: Mapping[str, Any], sections: Sections) -> str:
    """Return settings, by the names of their flags, as `read_settings` takes them."""
    place = {flag: (own, name) for own, names in sections.items() for name, flag in names.items()}
    lines, tables = list[str](), dict[str, list[str]]()
    for flag, value in values.items():
        section, name = place.get(flag, ("", flag))
        (tables.setdefault(section, []) if section else lines).append(f"{name} = {_print(value)}")
    for section, rows in tables.items():
        lines += ["", f"[{section}]", *rows]
    return "\n".join([HEAD, *lines, ""])


def _unknown(path: Path, what: str, name: str, names: Mapping[str, Any], kind: str) -> UserError:
    near = difflib.get_close_matches(name.replace("-", "_"), [*names], 1, 0.5)
    todo = f"did you mean {near[0]}?" if near else f"give one of {', '.join(sorted(names))}"
    return UserError(f"--settings: {path}: {what}: no {kind} is called so: {todo}")


def _parse(path: Path, name: str, value: Any, action: argparse.Action) -> Any:
    """Return a value as argparse makes it of the words of a command line."""
    several = action.nargs == "*"
    if several != isinstance(value, list):
        todo = "give a list of values" if several else "give one value, and no list"
        raise UserError(f"--settings: {path}: {name}: {value!r}: {todo}")
    make = action.type if callable(action.type) else str
    try:
        items = [make(_word(item)) for item in (value if several else [value])]
    except (ValueError, argparse.ArgumentTypeError) as error:
        why = error if isinstance(error, argparse.ArgumentTypeError) else f"it is no {_kind(make)}"
        raise UserError(f"--settings: {path}: {name}: {value!r}: {why}") from None
    if action.choices and not {*items} <= {*action.choices}:
        todo = f"give one of {', '.join(action.choices)}"
        raise UserError(f"--settings: {path}: {name}: {value!r}: {todo}")
    return items if several else items[0]


def _kind(make: Any) -> str:
    kinds = {"int": "whole number", "float": "number", "truth": "true or false"}
    return kinds.get(make.__name__, "value of it")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_print, value))}]"
    if isinstance(value, bool | int | float):
        return _word(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
