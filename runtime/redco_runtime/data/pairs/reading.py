"""The pairs of rows, whichever keys they have."""

from collections.abc import Mapping
from typing import Any

from ...base.messages import few, shown

Names = tuple[str, str]  # of the source and of the target
# Keys of rows, tried in this order: those of data sets of summaries, answers and corrections.
KINDS: tuple[Names, ...] = (
    ("source", "target"),
    ("document", "summary"),
    ("article", "highlights"),
    ("dialogue", "summary"),
    ("text", "summary"),
    ("input", "output"),
    ("question", "answer"),
    ("prompt", "completion"),
)
TRANSLATION = "translation"  # key of a row of WMT and others: {"en": ..., "de": ...}


def read_pair(row: Any, names: Names) -> tuple[str, str]:
    """Return the source and the target of a row. Raises ValueError, which says why it has none.

    names: of the fields; ("", ""): found by their keys, of a translation the first two languages.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"is no object: {shown(row)}")
    if isinstance(row.get(TRANSLATION), Mapping):
        row = row[TRANSLATION]
        names = names if any(names) else tuple([*row][:2])
    kinds = [names] if any(names) else KINDS
    pair = next(
        (pair for pair in kinds if len(pair) == 2 and all(name in row for name in pair)), None
    )
    if pair is None:
        wanted = "; ".join(" and ".join(map(repr, pair)) for pair in kinds)
        raise ValueError(
            f"has {few(row) or 'nothing'}, and a pair has {wanted}: --source-field and --target-field "
            "name others"
        )
    for name in pair:
        if not isinstance(row[name], str):
            raise ValueError(f"has {shown(row[name])} in {name!r}, and no text")
    return row[pair[0]], row[pair[1]]
