"""Words that both sides delete, one of them with more around them: the wider deletion has both."""

from collections.abc import Sequence

from redco_new.merge.matching import changes

Words = Sequence[str]
_Hunk = tuple[int, int, tuple[str, ...]]  # base[start:stop] becomes these words


def wider_deletion(base: Words, ours: Words, theirs: Words) -> Words | None:
    """Return the side whose changes hold all of the other's; None where each has its own."""
    mine, others = _hunks(base, ours), _hunks(base, theirs)
    if all(_is_in(h, mine) for h in others):
        return ours
    return theirs if all(_is_in(h, others) for h in mine) else None


def _is_in(hunk: _Hunk, hunks: list[_Hunk]) -> bool:
    start, stop, new = hunk
    wider = not new and any(h[0] <= start and stop <= h[1] and not h[2] for h in hunks)
    return wider or hunk in hunks


def _hunks(base: Words, side: Words) -> list[_Hunk]:
    return [(x.start, x.end, tuple(side[x.new_start : x.new_end])) for x in changes(base, side)]
