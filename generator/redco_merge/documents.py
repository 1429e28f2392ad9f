"""Three-way merge of files that are not Python: as git merges lines, and where git has a conflict, what each side added under other keys.

The kinds of files differ in what an entry is; TOML is merged by its keys too, wherever its lines are.
"""

import codecs
import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

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


class _Entry(NamedTuple):
    """What entries of one place have in common.

    key: finds what may be there once in the first line of an entry.
    holds_all: whether any line below belongs to it, and not only those that are deeper.
    """

    key: re.Pattern[bytes]
    holds_all: bool = False


_SECTION = _Entry(re.compile(rb"#{1,6}[ \t]+(.+)"), holds_all=True)
_ITEM = _Entry(re.compile(rb"([-*+] .+|\|(?![\s:|-]+$).+)"))
_MAPPED = _Entry(re.compile(rb"(- name: \S+|[\w./-]+:)(?:\s|$)"))
_OPTION = _Entry(re.compile(rb"#(?:SBATCH|PBS|BSUB)\s+(-[\w-]+)(?![\w ]*\s\w+=)"))
_VARIABLE = _Entry(re.compile(rb"((?:export\s+)?\w+)=\S*$"))
_PATTERN = _Entry(re.compile(rb"([^!#\s].*)"))
_SHELL = (_OPTION, _VARIABLE)
_KINDS = {
    ".md": (_SECTION, _ITEM),
    ".toml": (),
    ".yaml": (_MAPPED,),
    ".yml": (_MAPPED,),
    ".sh": _SHELL,
    ".sbatch": _SHELL,
    ".pbs": _SHELL,
    ".gitignore": (_PATTERN,),
    ".gitattributes": (_PATTERN,),
    ".dockerignore": (_PATTERN,),
}


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


def merge_text(
    base: bytes, ours: bytes, theirs: bytes, prefer_theirs: Collection[str] = ()
) -> MergeResult:
    """Merge a file of no kind, as lines: see `merge_document`."""
    return merge_document("", base, ours, theirs, prefer_theirs)


def _merge_checked(
    kind: str, base: bytes, ours: bytes, theirs: bytes, preferred: set[str]
) -> MergeResult:
    """Merge, and keep ours whole if the result does not stand an independent check."""
    if b"\0" in base + ours + theirs:
        return keep_whole(ours, theirs, "you and the template changed a binary file")
    mine, merged = merge_lines(kind, base, ours, theirs, preferred)
    wrong = text_faults(base, mine, theirs, merged)
    if not wrong and not merged.conflicts:
        wrong = [*kind_faults(kind, base, mine, theirs, merged.content)]
    if kind == ".toml" and (wrong or merged.conflicts) and not preferred:
        tables = _merge_toml(base, ours, theirs)
        return tables or (merged if not wrong else keep_whole(ours, theirs, wrong[0]))
    if wrong:
        return keep_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged


def merge_lines(
    kind: str, base: bytes, ours: bytes, theirs: bytes, preferred: set[str]
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
        if place.base[0] == place.base[1] and (both := _both_add(kind, own, other)):
            return both
        if name not in preferred:
            text = readable_text(b"".join(other))
            conflicts.append(Conflict(name, text, "you and the template changed it"))
            return own
        mine, at = [*mine, *o[at : place.ours[0]], *other], place.ours[1]
        return other

    lines = merge_like_git(b, o, t, _without_ending, resolve) or []
    content = bom + _with_endings(lines, ours)
    return bom + _with_endings([*mine, *o[at:]], ours), MergeResult(content, conflicts)


def _both_add(kind: str, ours: Lines, theirs: Lines) -> Lines | None:
    """Return what both put in one place, ours first, where these are entries of other keys; else None."""
    for entry in _KINDS.get(kind, ()):
        mine, others = (_keys_of(entry, side) for side in (ours, theirs))
        if mine and others and mine[0] == others[0] and not mine[1] & others[1]:
            return [*ours, *theirs]
    return None


def _keys_of(entry: _Entry, lines: Lines) -> tuple[int, set[bytes]] | None:
    """Return the indent of entries, and their keys; None where lines are anything else, or a key is there twice."""
    indent, keys = -1, list[bytes]()
    for line in lines:
        blanks = len(line) - len(line.lstrip())
        key = entry.key.match(line.strip())
        if key and (indent in (-1, blanks)):
            indent = blanks
            keys.append(key[1])
        elif line.strip() and (indent < 0 or not (entry.holds_all or blanks > indent)):
            return None
    return (indent, {*keys}) if len({*keys}) == len(keys) else None


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
