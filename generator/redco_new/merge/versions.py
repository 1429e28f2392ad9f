"""A version that both sides raised: the higher one is the merge, for what it counts is in the other as well.

People do so: they took the higher one in the 42 such files of tests/benchmarks/merge/RESULTS.md, and the lower one in one of five
that were held apart.
"""

import re
from collections.abc import Sequence

from redco_new.merge.statements import Word

_NAMES = ("version", "__version__", "VERSION")
_STAGES = ("dev", "a", "b", "rc", "", "post")  # as PEP 440 orders them; "" is the release itself
_SPELLINGS = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "final": ""}
_VERSION = re.compile(r"""(['"])v?(\d+(?:\.\d+)*)(?:[-_.]?([a-z]+)[-_.]?(\d*))?\1""", re.IGNORECASE)


def higher_version(
    base: Sequence[Word], ours: Sequence[Word], theirs: Sequence[Word]
) -> Sequence[Word] | None:
    """Return the side with the higher version, of `name = "1.2"` that both raised; else None."""
    sides = base, ours, theirs
    if any(len(side) != 3 or side[1].text != "=" for side in sides):
        return None
    if len({side[0].text for side in sides}) > 1 or base[0].text not in _NAMES:
        return None
    before, mine, other = (_rank(side[2].text) for side in sides)
    if before is None or mine is None or other is None or not before < min(mine, other):
        return None
    return ours if mine >= other else theirs


def _rank(literal: str) -> tuple[tuple[int, ...], int, int] | None:
    """Return what orders a version; None of what is not surely one."""
    match = _VERSION.fullmatch(literal)
    if match is None:
        return None
    numbers = [int(x) for x in match[2].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()  # 1.0 is 1
    stage = (match[3] or "").lower()
    stage = _SPELLINGS.get(stage, stage)
    return (tuple(numbers), _STAGES.index(stage), int(match[4] or 0)) if stage in _STAGES else None
