"""What programs print, for people who may have gone, or for programs."""

import functools
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

# Whether what a program says goes to stderr, and its result alone to stdout.
_QUIET: list[bool] = []
_EVALUATED: list[bool] = []  # whether data are read that are evaluated alone
_LOG: list[Path] = []  # where this process, one of several, writes what the others say too


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
