"""An independent check that an edit of a file is an edit of one symbol."""

from collections.abc import Iterator
from dataclasses import dataclass

from redco_new.merge.pieces import Pieces, Words, read, with_old_names, words
from redco_new.merge.verify import bytes_faults


@dataclass(frozen=True)
class Edit:
    """symbol: its path in the template.  whole: whether its members may change with it.

    mine, new: its text in our file and in the other.  names: old -> new, as the user renamed; in what
    is compared, all have the old.
    """

    symbol: str
    whole: bool
    mine: str
    new: str
    names: dict[str, str]


def faults(ours: bytes, other: bytes, swapped: bytes, edit: Edit) -> list[str]:
    """What is wrong with `swapped`: ours, with a symbol or a part of it as in `other`.

    Raises where a side cannot be read.
    """
    if found := list(bytes_faults(ours, swapped)):
        return found
    o, x, s = (read(side, edit.names) for side in (ours, other, swapped))
    texts = (words(with_old_names(text, edit.names)) for text in (edit.mine, edit.new))
    return [*elsewhere(edit, o, x, s), *invented(o, s, *texts), *doubled(o, x, s)]


def elsewhere(edit: Edit, o: Pieces, x: Pieces, s: Pieces) -> Iterator[str]:
    """What is changed beside the symbol, or to something that is not the other's."""
    inside = edit.symbol + "."
    for name in sorted({*o.words, *s.words}):
        if s.same(name, o):
            continue
        if name != edit.symbol and not (edit.whole and name.startswith(inside)):
            yield f"{name}: changed with {edit.symbol}"
        elif name in s.words and not s.same(name, x):
            yield f"{name}: neither yours nor the template's"
    for scope in sorted({*o.rest, *s.rest}):
        around = inside.startswith(scope) or (edit.whole and scope.startswith(inside))
        if o.rest[scope] != s.rest[scope] and not around:
            yield f"{scope}: changed with {edit.symbol}"


def invented(o: Pieces, s: Pieces, mine: Words, other: Words) -> Iterator[str]:
    before, after = words(o.text), words(s.text)
    if gone := before - after - mine:
        yield f"lost: {', '.join(gone)}"
    if new := after - before - other:
        yield f"nobody wrote: {', '.join(new)}"


def doubled(o: Pieces, x: Pieces, s: Pieces) -> Iterator[str]:
    for name, times in sorted(s.defined.items()):
        if times > max(1, o.defined[name], x.defined[name]):
            yield f"your file has its own {name}"
