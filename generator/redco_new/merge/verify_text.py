"""An independent check of a line-wise merge."""

from collections import Counter

from redco_new.merge.result import Merged


def faults(base: bytes, ours: bytes, theirs: bytes, merged: Merged) -> list[str]:
    """What is wrong with `merged`: a line of the user's that is lost, one that nobody wrote, a
    change of the template that is neither in it nor in a conflict."""
    b, o, t, m = (_lines(x) for x in (base, ours, theirs, merged.content))
    found = [f"lost: {line!r}" for line in (o - (b - t)) - m]
    found += [f"invented: {line!r}" for line in m - (o | t | o + (t - b))]
    if not merged.conflicts:
        found += [f"dropped: {line!r}" for line in (t - (b - o)) - m]
    return found


def _lines(data: bytes) -> Counter[bytes]:
    return Counter(line.strip() for line in data.splitlines() if line.strip())
