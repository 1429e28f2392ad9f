"""Which families that are there are nearest to a new one."""

from __future__ import annotations

from family.facts import Draft, draft
from redco_new.errors import RedcoError
from redco_new.models.families import FAMILIES

SHOWN = 5


def nearest(name: str, hf: str) -> list[str]:
    """Return a line for each of the nearest families: what differs, in tensors and keys. Raises RedcoError."""
    drafts, error = [], None
    for like in FAMILIES:
        try:
            drafts.append(draft(name, like, hf))
        except RedcoError as refused:
            if refused.where != "LIKE":
                raise
            error = refused
    if not drafts:
        assert error
        raise error
    return [_line(x) for x in sorted(drafts, key=_distance)[:SHOWN]]


def _distance(new: Draft) -> tuple[int, int]:
    """Return how far a neighbour is: tensors, then keys; one that refuses the class is a key farther."""
    return len(new.difference.lines), len(new.more) + len(new.without) + bool(new.refusal)


def _line(new: Draft) -> str:
    keys = ", ".join(new.more) or "none"
    refused = f"; refuses: {new.refusal}" if new.refusal else ""
    return f"LIKE={new.like.name}: {len(new.difference.lines)} tensors differ; keys not read: {keys}{refused}"
