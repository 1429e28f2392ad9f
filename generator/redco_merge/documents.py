"""Three-way merge of files that are not Python: as git merges lines. TOML is merged by its keys too, wherever its lines are."""

import codecs
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from redco_merge.matching import Overlap, merge_like_git
from redco_merge.result import (
    WHOLE,
    Conflict,
    MergeResult,
    keep_whole,
    readable_text,
    still_in_conflict,
)
from redco_merge.verify_text import kind_faults, text_faults, toml_faults

Lines = list[bytes]


def merge_document(
    path: str, base: bytes, ours: bytes, theirs: bytes, prefer_theirs: Collection[str] = ()
) -> MergeResult:
    """Merge into `ours` the changes from `base` to `theirs` of a file that is not Python.

    path: its name says its kind; what is of none is merged as lines.
    prefer_theirs: the conflicts of which the template's side wins, "line 12" or WHOLE.
    Where both changed one place, ours stays and the lines of theirs are a conflict. Never raises.
    Of a file with a zero byte, one side is taken whole.
    """
    if theirs in (base, ours):
        return MergeResult(ours)
    if ours == base:
        return MergeResult(theirs)
    name = PurePosixPath(path)
    kind = name.suffix or name.name
    merged = _merge_checked(kind, base, ours, theirs, set())
    preferred = {x.symbol for x in merged.conflicts} & set(prefer_theirs)
    if WHOLE in preferred:
        return MergeResult(theirs)
    if not preferred:
        return merged
    result = _merge_checked(kind, base, ours, theirs, preferred)
    if why := [x.reason for x in result.conflicts if x.symbol == WHOLE]:
        left = [
            still_in_conflict(x, why[0]) if x.symbol in preferred else x for x in merged.conflicts
        ]
        return replace(merged, conflicts=left)
    return result


merge_text = partial(merge_document, "")  # of a file of no kind


def _merge_checked(
    kind: str, base: bytes, ours: bytes, theirs: bytes, preferred: set[str]
) -> MergeResult:
    """Merge, and keep ours whole if the result does not stand an independent check."""
    if b"\0" in base + ours + theirs:
        return keep_whole(ours, theirs, "you and the template changed a binary file")
    mine, merged = merge_lines(base, ours, theirs, preferred)
    wrong = text_faults(base, mine, theirs, merged)
    if not wrong and not merged.conflicts:
        wrong = [*kind_faults(kind, base, ours, theirs, merged.content)]
    if kind == ".toml" and (wrong or merged.conflicts) and not preferred:
        tables = _merge_toml(base, ours, theirs)
        return tables or (merged if not wrong else keep_whole(ours, theirs, wrong[0]))
    if wrong:
        return keep_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged


def merge_lines(
    base: bytes, ours: bytes, theirs: bytes, preferred: set[str]
) -> tuple[bytes, MergeResult]:
    """Return (ours with the lines of theirs where they are preferred, the merge)."""
    bom = codecs.BOM_UTF8 if ours.startswith(codecs.BOM_UTF8) else b""
    b, o, t = (x.removeprefix(codecs.BOM_UTF8).splitlines(True) for x in (base, ours, theirs))
    conflicts: list[Conflict] = []
    mine: Lines = []
    at = 0

    def resolve(place: Overlap) -> Lines:
        nonlocal mine, at
        own, other = o[slice(*place.ours)], t[slice(*place.theirs)]
        name = f"line {place.ours[0] + 1}"
        if name not in preferred:
            text = readable_text(b"".join(other))
            conflicts.append(Conflict(name, text, "you and the template changed it"))
            return own
        mine, at = [*mine, *o[at : place.ours[0]], *other], place.ours[1]
        return other

    lines = merge_like_git(b, o, t, _without_ending, resolve) or []
    content = bom + _with_endings(lines, ours)
    return bom + _with_endings([*mine, *o[at:]], ours), MergeResult(content, conflicts)


def _merge_toml(base: bytes, ours: bytes, theirs: bytes) -> MergeResult | None:
    """Return the merge by keys; None where both changed one, or its comments or values are not those of both sides."""
    try:
        b, o, t = (x.decode("utf-8-sig").replace("\r\n", "\n") for x in (base, ours, theirs))
    except UnicodeDecodeError:
        return None
    text = merge_tables(b, o, t)
    if text is None or any(toml_faults(b, o, t, text)):
        return None
    bom = codecs.BOM_UTF8 if ours.startswith(codecs.BOM_UTF8) else b""
    return MergeResult(bom + _with_endings(text.encode().splitlines(True), ours))


def _with_endings(lines: Iterable[bytes], ours: bytes) -> bytes:
    """Join lines; those not of ours get our line ending, the last one an ending if ours has."""
    newline = b"\r\n" if ours.count(b"\r\n") * 2 > ours.count(b"\n") else b"\n"
    own = set(ours.splitlines(True))
    whole = [
        x if x in own and x != _without_ending(x) else _without_ending(x) + newline for x in lines
    ]
    if whole and ours and not ours.endswith((b"\n", b"\r")):
        whole[-1] = _without_ending(whole[-1])
    return b"".join(whole)


def _without_ending(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")


_ABSENT = object()


def merge_tables(base: str, ours: str, theirs: str) -> str | None:
    """Return the text of ours with the changes of theirs, which win; None where it cannot be written.

    Of lists that both changed, such as those of requirements, the result has what each added and lacks what each took away.
    """
    try:
        document = tomlkit.parse(ours)
        _change(document, tomlkit.parse(theirs), *map(tomllib.loads, (base, ours, theirs)))
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, ValueError, TypeError, AttributeError):
        return None


def _change(document: Any, other: Any, base: Any, ours: Any, theirs: Any) -> None:
    """Put into a table of ours what theirs changed, with the layout that it has there."""
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        b, o, t = (side.get(key, _ABSENT) for side in (base, ours, theirs))
        if repr(t) in (repr(b), repr(o)):
            continue
        if t is _ABSENT:
            del document[key]
        elif isinstance(o, dict) and isinstance(t, dict):
            _change(document[key], other[key], b if isinstance(b, dict) else {}, o, t)
        elif repr(o) == repr(b):
            document[key] = other[key]
        else:
            for x in [x for x in b if x not in t and x in o]:
                document[key].remove(x)
            document[key].extend(x for x in t if x not in b and x not in o)
