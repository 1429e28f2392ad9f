"""Errors that a user can mend: of what a project was made without, too."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

MOST_LINES = 20  # of a message: with what is around them they fit a terminal of 24


class UserError(Exception):
    """Its message says where, what and what to do; programs print it alone and exit with `code`."""

    code, kind = 2, "error"
    together = False  # whether all processes raise it at the same step, and so can leave as one
    silent = False  # whether another process prints it


def listed(title: str, faults: Sequence[str], todo: str) -> str:
    """Return a message with a line for each fault."""
    return "\n  ".join([title, *faults]) + f"\n{todo}"


def first(faults: Sequence[str], most: int = MOST_LINES) -> list[str]:
    """Return the first of many faults, and how many more there are."""
    more = len(faults) - most
    return [*faults[:most], *([f"and {more} more"] if more > 0 else [])]


def few(items: Iterable[object], most: int = 8, separator: str = ", ") -> str:
    """Return the first of many things on a line, and how many more there are."""
    return separator.join(first([str(item) for item in items], most))


def shown(value: Any) -> str:
    """Return the first characters of a value of a row, as JSON has it; of a table it may be of another kind."""
    return json.dumps(value, default=str)[:40]


@contextmanager
def writing(what: object, *kinds: type[Exception], option: str = "--workdir") -> Iterator[None]:
    """Make a UserError of what fails in it: `what` lies where `option` of the program says."""
    errors: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except errors as error:
        number = re.search(r"os_error_code='(\d+)'", str(error))  # of a page by TensorStore
        why = os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot write {what}: {why}. "
            f"Mend that or choose another {option}. What was written before is whole."
        ) from error


def feature(name: str, module: str, where: str = "", flag: str = "") -> Any:
    """Return a module of the runtime that one feature brings. Raises UserError where this project lacks it.

    where: what asks for it, for the message. flag: of `redco update`, which brings it.
    """
    if part := if_asked_for(module):
        return part
    todo = f"`redco update {flag or f'--features {name}'}` brings it"
    place = f"{where}: " if where else ""
    raise UserError(f"{place}this project was made without {name}: {todo}")


def if_asked_for(module: str) -> Any:
    """Return a module of the runtime that a feature brings; None where this project lacks it."""
    whole = f"{__name__.removesuffix('.base.errors')}.{module}"
    try:
        return import_module(whole)
    except ModuleNotFoundError as error:
        if error.name != whole:
            raise
        return None
