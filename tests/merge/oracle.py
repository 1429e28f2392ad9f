"""What a right merge is, told by the marks of the edits alone."""

from collections import Counter

from merge.edits import marks, parses

from redco_new.merge import WHOLE, Merged, merge


def wrong(base: bytes, ours: bytes, theirs: bytes, merged: Merged) -> list[str]:
    """What is lost or broken; [] if nothing is."""
    text, mine, other = (x.decode("utf-8-sig") for x in (merged.content, ours, theirs))
    found, have = Counter(marks(text)), Counter(marks(mine))
    beside = Counter(marks("".join(conflict.theirs for conflict in merged.conflicts)))
    bad = [f"lost: {mark}" for mark in have - found]
    bad += [f"dropped: {mark}" for mark in Counter(marks(other)) - found - beside]
    bad += [f"doubled: {mark}" for mark in found - have - Counter(marks(other))]
    if not parses(text):
        bad.append("broken: not Python")
    if merge(theirs, merged.content, theirs).content != merged.content:
        bad.append("a second merge changes it")
    if not merged.conflicts and merge(base, merged.content, theirs).content != merged.content:
        bad.append("the same merge again changes it")
    return bad


def whole(merged: Merged) -> bool:
    """Whether the file was kept whole."""
    return any(conflict.symbol == WHOLE for conflict in merged.conflicts)
