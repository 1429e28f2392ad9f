"""Disks that fail, fill up or stop at any call that changes them."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock


class Killed(BaseException):
    """What a killed process meets at its next call, and at each one after."""


class Calls:
    """The calls so far that change the disk, as (name, path), and the one at which it goes wrong.

    at: the number of that call, from 0.  error: what is raised there; where it is `lasting`, at
    each call after it too: nothing can be changed any more.
    """

    def __init__(self, at: int = -1, error: BaseException | None = None, lasting: bool = False):
        self.at, self.error, self.lasting = at, error, lasting
        self.made: list[tuple[str, str]] = []

    def meet(self, name: str, path: str) -> None:
        number = len(self.made)
        self.made.append((name, path))
        if number == self.at or self.lasting and number > self.at:
            raise self.error


def killed_at(number: int) -> Calls:
    return Calls(number, Killed(), lasting=True)


@contextmanager
def on(calls: Calls) -> Iterator[Calls]:
    """Have each call that changes the disk meet `calls` first; in a write, halfway through it.

    fsync does nothing else: it matters to power losses, and takes long.
    """
    with mock.patch.multiple(
        os, **{name: _counted(calls, name, getattr(os, name)) for name in NAMES}
    ):
        with mock.patch("io.open", _counted_open(calls)):
            yield calls


NAMES = ("mkdir", "rmdir", "unlink", "replace", "chmod", "chown", "fsync")


def _counted(calls: Calls, name: str, real: Callable) -> Callable:
    def call(*args, **options):
        calls.meet(name, _changed(name, args))
        return None if name == "fsync" else real(*args, **options)

    return call


def _changed(name: str, args: tuple) -> str:
    """The path that a call changes."""
    if name == "fsync":
        return os.readlink(f"/proc/self/fd/{args[0]}")
    return str(args[1] if name == "replace" else args[0])


def _counted_open(calls: Calls, real: Callable = io.open) -> Callable:
    def call(path, mode="r", *args, **options):
        if mode in ("r", "rb"):
            return real(path, mode, *args, **options)
        calls.meet("open", str(path))
        return _Written(calls, real(path, mode, *args, **options))

    return call


class _Written:
    """A file whose writes stop halfway to meet `calls`."""

    def __init__(self, calls: Calls, file):
        self.calls, self.file = calls, file

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, content) -> int:
        half = len(content) // 2
        self.file.write(content[:half])
        self.file.flush()
        self.calls.meet("write", self.file.name)
        return half + self.file.write(content[half:])
