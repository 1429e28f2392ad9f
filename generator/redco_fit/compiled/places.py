"""Which line of a project each instruction of a program is for, by the frames that its text lists."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

TABLE = re.compile(r"^(FileNames|FunctionNames|FileLocations|StackFrames)\n((?:\d+ .*\n)*)", re.M)
NUMBER = re.compile(r"(\w+)=(\d+)")


@dataclass(frozen=True)
class Place:
    """A line of a file.

    path: below the folder that was asked about.  function: with its class, as "Layer.__call__".
    """

    path: str
    function: str
    line: int


def places(hlo: str, folder: str) -> dict[str, Place]:
    """Return number of a frame -> the innermost place of `folder` in it, that of a runtime only where no other is.

    {} for a program whose text has no frames.
    """
    tables = {name: rows(lines) for name, lines in TABLE.findall(hlo)}
    if len(tables) < 4:
        return {}
    texts = {
        name: {n: text.strip('"') for n, text in tables[name].items()}
        for name in ("FileNames", "FunctionNames")
    }
    root, of_frame = os.path.realpath(folder) + os.sep, dict[str, Place]()
    locations = {n: dict(NUMBER.findall(text)) for n, text in tables["FileLocations"].items()}
    frames = {n: dict(NUMBER.findall(text)) for n, text in tables["StackFrames"].items()}
    for number in frames:
        inner: list[Place] = []
        at, before = number, ""
        while at in frames and at != before:
            location = locations[frames[at]["file_location_id"]]
            file = os.path.realpath(texts["FileNames"][location["file_name_id"]])
            if file.startswith(root):
                function = texts["FunctionNames"][location["function_name_id"]]
                name = function.replace("<locals>.", "")
                inner.append(Place(os.path.relpath(file, root), name, int(location["line"])))
            at, before = frames[at]["parent_frame_id"], at
        own = [place for place in inner if "/runtime/" not in place.path]
        if inner:
            of_frame[number] = (own or inner)[0]
    return of_frame


def rows(lines: str) -> dict[str, str]:
    """Return number -> the rest of its line."""
    return {n: rest for n, _, rest in (line.partition(" ") for line in lines.splitlines())}
