"""The template's version of one symbol, taken after the update."""

import pytest
from merge.test_taken import LAYOUTS, squeezed

from redco_new.merge import WHOLE, merge, take

BASE = """\
import os

N = 1


# what is to be small
def loss(x):
    a = 1
    return x


class C:
    a: int = 1

    def go(self):
        return os


def step():
    return loss(N)
"""
THEIRS = BASE.replace("# what is", "# what has").replace("return x", "return -x")
OURS = BASE.replace("N = 1", "N = 2").replace("a = 1\n    return x", "a = 2\n    return x + a")
TAKEN = THEIRS.replace("N = 1", "N = 2")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_pending_function(layout):
    ours = layout(OURS).encode()
    merged = merge(BASE.encode(), ours, THEIRS.encode())
    assert (merged.content, [x.symbol for x in merged.conflicts]) == (ours, ["loss"])
    content = take(merged.content, THEIRS.encode(), "loss")
    assert content == layout(TAKEN).encode()
    assert take(content, THEIRS.encode(), "loss") == content
    assert merge(THEIRS.encode(), content, THEIRS.encode()).conflicts == []


def taken(ours: str, symbol: str, theirs: str = THEIRS) -> str | None:
    content = take(ours.encode(), theirs.encode(), symbol)
    return None if content is None else content.decode()


def without(text: str, start: str, end: str) -> str:
    return text[: text.index(start)] + text[text.index(end) :]


def test_other_symbols():
    assert taken(OURS, "N") == OURS.replace("N = 2", "N = 1")
    ours = OURS.replace("a: int = 1", "a: int = 2").replace("return os", "return 1")
    assert taken(ours, "C.go") == ours.replace("return 1", "return os")
    assert taken(ours, "C") == OURS
    assert taken(ours, WHOLE) == THEIRS


@pytest.mark.parametrize(
    ("symbol", "start", "end"),
    [
        ("loss", "# what", "class C"),
        ("C", "class C", "def step"),
        ("C.go", "    def go", "\n\ndef step"),
        ("N", "N = 1", "\n\n# what"),
        ("step", "def step", "THE END"),
    ],
)
def test_deleted(symbol, start, end):
    """By the user, it comes back; by the template, it goes."""
    less = without(THEIRS + "THE END", start, end).replace("THE END", "")
    assert squeezed(taken(less, symbol)) == squeezed(THEIRS)
    unused = THEIRS.replace("loss(N)", "1")
    less = without(unused + "THE END", start, end).replace("THE END", "")
    assert squeezed(taken(unused, symbol, less)) == squeezed(less)


def test_renamed_by_the_user():
    ours = BASE.replace("loss", "mine").replace("N = 1", "N = 2")
    assert taken(ours, "mine") == TAKEN.replace("loss", "mine")


@pytest.mark.parametrize(
    ("ours", "symbol", "theirs"),
    [
        (OURS, "no_such", THEIRS),
        (OURS, "import os", THEIRS),
        (OURS, "os", THEIRS),
        (OURS, "D.go", THEIRS),
        (OURS + "def (:\n", "loss", THEIRS),
        (OURS, "loss", THEIRS + "def (:\n"),
        (OURS + "\0", "loss", THEIRS),
        (OURS + "if 1:\n    pass\n\n\ndef loss(x):\n    return 1\n", "loss", THEIRS),
        (without(OURS, "class C", "def step"), "C.go", THEIRS),
        (OURS, "loss", without(THEIRS, "# what", "class C").replace("loss(N)", "1")),
        (OURS + "\nprint(C().a)\n", "C.a", THEIRS.replace("    a: int = 1\n\n", "")),
        (OURS.replace("return os", "return 1").replace("import os\n", ""), "C.go", THEIRS),
        (
            without(OURS, "# what", "class C").replace("import os", "from m import loss"),
            "loss",
            THEIRS,
        ),
        ("def f(x=1):\n    return x\n\n\nB = 1\n", "f", "B = 1\n\n\ndef f(x=B):\n    return x\n"),
        ("# coding: latin-1\nN = 1\n", "N", "N = '→'\n"),
        ("class C:\n    a = 1\n\n\nC()\n", "C.a", "class C:\n    b = 1\n\n\nC()\n"),
    ],
    ids=[
        "no-such",
        "import",
        "imported",
        "no-such-class",
        "syntax",
        "syntax-of-template",
        "zero",
        "several",
        "class-is-gone",
        "still-used",
        "member-still-used",
        "import-is-gone",
        "name-is-taken",
        "too-early",
        "encoding",
        "empty-class",
    ],
)
def test_not_with_certainty(ours, symbol, theirs):
    assert taken(ours, symbol, theirs) is None
