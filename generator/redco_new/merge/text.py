"""Line-wise three-way merge of files that are not Python."""

import codecs

from redco_new.merge.diff3 import merge_region, regions
from redco_new.merge.result import Conflict, Merged, kept_whole, readable
from redco_new.merge.verify_text import faults


def merge_text(base: bytes, ours: bytes, theirs: bytes) -> Merged:
    """`ours` with the changes from `base` to `theirs`, line by line; for TOML, Markdown, shell.

    Where both changed the same lines, ours stay and theirs are a conflict. Never raises. Of a file
    with a zero byte, one side is taken whole.
    """
    if theirs in (base, ours):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    if b"\0" in base + ours + theirs:
        return kept_whole(ours, theirs, "you and the template changed a binary file")
    merged = merge_lines(base, ours, theirs)
    if wrong := faults(base, ours, theirs, merged):
        return kept_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> Merged:
    bom = codecs.BOM_UTF8 if ours.startswith(codecs.BOM_UTF8) else b""
    sides = [x.removeprefix(codecs.BOM_UTF8).splitlines(True) for x in (base, ours, theirs)]
    lines: list[bytes] = []
    conflicts, line = [], 1
    for region in regions(*sides, key=_bare):
        piece = merge_region(region, _bare)
        if piece is None:
            piece, text = region[1], readable(b"".join(region[2]))
            conflicts.append(Conflict(f"line {line}", text, "you and the template changed it"))
        lines += piece
        line += len(region[1])
    return Merged(bom + _with_endings(lines, ours), conflicts)


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
