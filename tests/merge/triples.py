"""A file, a user's version of it, and a template's."""

from typing import NamedTuple

from merge.edits import EDITS, Pick, edited, parses
from merge.programs import program, symbols

USER = tuple(EDITS)
TEMPLATE = tuple(kind for kind in EDITS if kind != "swap")  # a template's order is no edit
LAYOUTS = (
    lambda text: text,
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: text.removesuffix("\n"),
)


class Triple(NamedTuple):
    base: bytes
    ours: bytes
    theirs: bytes


def triple(pick: Pick) -> Triple:
    """Up to five edits on each side; the user's file in a layout of its own now and then."""
    base = program(pick)
    assert parses(base)
    ours = edited(base, "user", pick(6), pick, USER)
    theirs = edited(base, "tmpl", pick(6), pick, TEMPLATE)
    ours = LAYOUTS[pick(len(LAYOUTS))](ours)
    return Triple(base.encode(), ours.encode(), theirs.encode())


def contested(pick: Pick) -> Triple:
    """A few symbols and many edits on each side: most of these meet."""
    base = "".join(symbols(pick, 20)[:4])
    mine = edited(base, "user", 3 + pick(6), pick, USER)
    other = edited(base, "tmpl", 3 + pick(6), pick, TEMPLATE)
    return Triple(*(text.encode() for text in (base, mine, other)))


INSIDE = ("statement", "change", "remark", "function", "member", "document", "decorate")


def apart(pick: Pick) -> Triple:
    """The user edits one half of a file, the template the other."""
    halves = "".join(symbols(pick, 20)), "\n" + "".join(symbols(pick, 40))
    mine = edited(halves[0], "user", 1 + pick(4), pick, INSIDE)
    other = edited(halves[1], "tmpl", 1 + pick(4), pick, INSIDE)
    pairs = halves, (mine, halves[1]), (halves[0], other)
    return Triple(*("".join(pair).encode() for pair in pairs))


def lines_apart(pick: Pick) -> Triple:
    """One function, of whose lines each side changes some, and never the same one."""
    lines = [f"    a{i} = {i}  # line" for i in range(2 + pick(8))]
    who = ["user" if pick(2) else "tmpl" for _ in lines]

    def changed(side: str) -> list[str]:
        pairs = enumerate(zip(lines, who, strict=True))
        return [x.replace("=", f"= {side}_{i} +") if w == side else x for i, (x, w) in pairs]

    bodies = lines, changed("user"), changed("tmpl")
    return Triple(*("\n".join(["def f():", *body, ""]).encode() for body in bodies))
