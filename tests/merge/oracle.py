"""What a right merge is, told by the marks of the edits alone."""

import re
from collections import Counter

from merge.edits import marks, parses

from redco_merge import WHOLE, Conflict, MergeResult, merge, symbol_text

CLASS = re.compile(r"^ *class .*", re.MULTILINE)


def wrong(
    base: bytes, ours: bytes, theirs: bytes, merged: MergeResult, given: str = ""
) -> list[str]:
    """What is lost or broken; [] if nothing is. given: text of ours that the user gave up."""
    text, mine, other = (x.decode("utf-8-sig") for x in (merged.content, ours, theirs))
    found, have = Counter(marks(text)), Counter(marks(mine))
    beside = Counter(marks("".join(conflict.theirs for conflict in merged.conflicts)))
    bad = [f"lost: {mark}" for mark in have - Counter(marks(given)) - found]
    bad += [f"dropped: {mark}" for mark in Counter(marks(other)) - found - beside]
    bad += [f"doubled: {mark}" for mark in found - have - Counter(marks(other))]
    if not parses(text):
        bad.append("broken: not Python")
    if merge(theirs, merged.content, theirs).content != merged.content:
        bad.append("a second merge changes it")
    if not merged.conflicts and merge(base, merged.content, theirs).content != merged.content:
        bad.append("the same merge again changes it")
    return bad


def text_of(ours: bytes, theirs: bytes, conflicts: list[Conflict]) -> str:
    """The text of ours of the symbols in conflict; of a class that both have, what is no member.

    Of an owned class it is all: pending conflicts are about whole symbols.
    """
    texts = []
    for conflict in conflicts:
        mine, other = (symbol_text(side, conflict.symbol) or "" for side in (ours, theirs))
        both = not conflict.pending and CLASS.search(mine) and CLASS.search(other)
        texts.append(mine[: CLASS.search(mine).end()] if both else mine)
    return "".join(texts)


def whole(merged: MergeResult) -> bool:
    """Whether the file was kept whole."""
    return any(conflict.symbol == WHOLE for conflict in merged.conflicts)
