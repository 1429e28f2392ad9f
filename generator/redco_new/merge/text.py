"""Line-wise three-way merge of files that are not Python."""

import codecs
from collections.abc import Iterable
from dataclasses import replace

from redco_new.merge.diff3 import merge_region, regions
from redco_new.merge.result import WHOLE, Conflict, Merged, kept_whole, not_taken, readable
from redco_new.merge.verify_text import faults


def merge_text(base: bytes, ours: bytes, theirs: bytes, taken: Iterable[str] = ()) -> Merged:
    """`ours` with the changes from `base` to `theirs`, line by line; for TOML, Markdown, shell.

    Where both changed the same lines, ours stay and theirs are a conflict, or theirs win if `taken`
    names it ("line 12" or WHOLE). Never raises. Of a file with a zero byte, one side is taken whole.
    """
    if theirs in (base, ours):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    merged = checked(base, ours, theirs, set())
    wanted = {x.symbol for x in merged.conflicts} & set(taken)
    if WHOLE in wanted:
        return Merged(theirs)
    chosen = checked(base, ours, theirs, wanted) if wanted else merged
    if why := [x.reason for x in chosen.conflicts if x.symbol == WHOLE and wanted]:
        left = [not_taken(x, why[0]) if x.symbol in wanted else x for x in merged.conflicts]
        return replace(merged, conflicts=left)
    return chosen


def checked(base: bytes, ours: bytes, theirs: bytes, taken: set[str]) -> Merged:
    if b"\0" in base + ours + theirs:
        return kept_whole(ours, theirs, "you and the template changed a binary file")
    mine, merged = merge_lines(base, ours, theirs, taken)
    if wrong := faults(base, mine, theirs, merged):
        return kept_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged


def merge_lines(base: bytes, ours: bytes, theirs: bytes, taken: set[str]) -> tuple[bytes, Merged]:
    """(ours with the lines of theirs where they are taken, the merge)."""
    bom = codecs.BOM_UTF8 if ours.startswith(codecs.BOM_UTF8) else b""
    sides = [x.removeprefix(codecs.BOM_UTF8).splitlines(True) for x in (base, ours, theirs)]
    mine: list[bytes] = []
    lines: list[bytes] = []
    conflicts, line = [], 1
    for region in regions(*sides, key=_bare):
        piece, kept, name = merge_region(region, _bare), region[1], f"line {line}"
        if piece is None and name in taken:
            piece = kept = region[2]
        elif piece is None:
            text = readable(b"".join(region[2]))
            conflicts.append(Conflict(name, text, "you and the template changed it"))
            piece = kept
        lines += piece
        mine += kept
        line += len(region[1])
    mine, content = (bom + _with_endings(side, ours) for side in (mine, lines))
    return mine, Merged(content, conflicts)


def _with_endings(lines: list[bytes], ours: bytes) -> bytes:
    """`lines` that are not ours get our line ending; the last one has an ending if ours has."""
    newline = b"\r\n" if ours.count(b"\r\n") * 2 > ours.count(b"\n") else b"\n"
    own = set(ours.splitlines(True))
    whole = [x if x in own and x != _bare(x) else _bare(x) + newline for x in lines]
    if whole and ours and not ours.endswith((b"\n", b"\r")):
        whole[-1] = _bare(whole[-1])
    return b"".join(whole)


def _bare(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")
