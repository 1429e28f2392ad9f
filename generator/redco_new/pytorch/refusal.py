"""Refusals: what cannot be printed, by name and with the line of the class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from redco_new.errors import RedcoError

# A frame of a traceback, as torch.export notes them with each operation.
FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


HERE = str(Path(__file__).parent)
TORCH = str(Path(torch.__file__).parent)


def frames_of(stack: str | None) -> list[tuple[str, str]]:
    """Return (file, line) of the frames of a traceback, without those of this package, and of what is made at run time."""
    return [frame for frame in FRAME.findall(stack or "") if not frame[0].startswith((HERE, "<"))]


def place_of(*stacks: str | None) -> str:
    """Return FILE:LINE of the innermost frame of the first traceback that has one, of the class rather than of PyTorch, or ""."""
    frames = next(filter(None, map(frames_of, stacks)), [])
    frames = [x for x in frames if not x[0].startswith(TORCH)] or frames
    return f"{Path(frames[-1][0]).name}:{frames[-1][1]}" if frames else ""


def cut_stack(stack: str, file: str | None, lines: range) -> str:
    """Return a traceback up to its last frame within some lines of a file; "" where none is."""
    end = 0
    for frame in FRAME.finditer(stack):
        if frame["file"] == file and int(frame["line"]) in lines:
            end = frame.end()
    return stack[:end]


OTHERWISE = "write it otherwise, or by others"
UNRULED = "it has what no rule prints"
# What rules raise of a step that none of them is for.
UNSERVED = (
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def refuse(where: str, what: str, todo: str = OTHERWISE) -> RedcoError:
    """Return the error for what cannot be printed. where: FILE:LINE, or what stands for it."""
    return RedcoError(where or "--model", what, todo)


class UnlikeProgram(RedcoError):
    """The program of a class is another one for other sizes, or has a number that does not follow from them."""


class Unsaid(UnlikeProgram):
    """A program has a number that follows from no size.

    values: of the number, for each probe of each instance of its class
    name: what it may be called
    by_probe: the number in each probe, where all instances have the same; () otherwise
    """

    def __init__(self, where: str, what: str, values: Sequence[Any], name: str = "size") -> None:
        super().__init__(where, what, OTHERWISE)
        self.values, self.name = tuple(values), name
        self.by_probe: tuple[int | float, ...] = ()


class Impossible(RedcoError):
    """Sizes that a class cannot have, whatever way it is made in."""


class NoHidden(RedcoError):
    """A class of texts whose logits are not made of hidden states alone, which recipes of families read."""


class Differs(RedcoError):
    """A class computes something else in float32, as a way makes it or as it is printed, than as its users have it."""
