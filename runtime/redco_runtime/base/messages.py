"""What programs say, to people who may have gone, or to programs: lines, and errors that a user can mend, of what a project was made without, too."""

import functools
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

# Whether what a program says goes to stderr, and its result alone to stdout.
_QUIET: list[bool] = []
_EVALUATED: list[bool] = []  # whether data are read that are evaluated alone
_LOG: list[Path] = []  # where this process, one of several, writes what the others say too
MOST_LINES = 20  # of a message: with what is around them they fit a terminal of 24


def open_log(path: Path) -> None:
    """Write what is not Python's from here on, such as what C++ says, to the end of a file in place of stderr. Raises OSError."""
    if _LOG:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    terminal = open(os.dup(2), "wb", 0)  # noqa: SIM115 (it stays open)
    # The same object, which handlers of logs have.
    io.TextIOWrapper.__init__(sys.stderr, terminal, errors="backslashreplace", write_through=True)  # type: ignore[arg-type]
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    _LOG.append(path)


def log_of(index: int) -> str:
    """Return where the log of a process of this run is, "" for nowhere."""
    return str(_LOG[0].with_name(f"{index}.log")) if _LOG else ""


def in_log() -> TextIO:
    """Return the log of this process, open, or what goes nowhere without one."""
    return open(os.dup(2) if _LOG else os.devnull, "w", errors="backslashreplace")


def results_alone() -> None:
    """Print to stderr from here on what `show` is given, but for results."""
    _QUIET.append(True)


def show(text: str, result: bool = False) -> None:
    """Print a text. Once nobody reads it any more, as after `| head`, nothing is printed, and all else goes on."""
    stream = sys.stderr if _QUIET and not result else sys.stdout
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # In its place, so that what is still to be written, at the end by Python itself, does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_once(text: str, result: bool = False) -> None:
    """Print a line, once for all processes. result: as of `show`."""
    jax = sys.modules.get("jax")  # which a process that reads data does without
    if jax is None or jax.process_index() == 0:
        show(text, result)


@functools.cache
def announce(text: str) -> None:
    """Print a line, once for all processes, and once though it is said again: of data that is read several times."""
    print_once(text)


def announce_training(text: str) -> None:
    """Print a line about what is trained on, and held out beside it; none where data are evaluated alone."""
    if not _EVALUATED:
        announce(text)


@contextmanager
def evaluated_alone() -> Iterator[None]:
    """Print nothing of training within: data are read that are evaluated alone."""
    _EVALUATED.append(True)
    try:
        yield
    finally:
        _EVALUATED.pop()


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
    whole = f"{__name__.removesuffix('.base.messages')}.{module}"
    try:
        return import_module(whole)
    except ModuleNotFoundError as error:
        if error.name != whole:
            raise
        return None
