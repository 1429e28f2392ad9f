"""The template's version of one symbol, taken after the update."""

from itertools import combinations_with_replacement

import pytest
from merge.test_prefer_theirs import LAYOUTS, squeezed

from redco_merge import WHOLE, merge, take
from redco_merge.take import CannotTake, check_names
from redco_merge.spots import pair_spots, touches

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


def taken(ours: str, symbol: str, theirs: str = THEIRS, **conflict: bool) -> str | None:
    content = take(ours.encode(), theirs.encode(), symbol, **conflict)
    return None if content is None else content.decode()


def without(text: str, start: str, end: str) -> str:
    return text[: text.index(start)] + text[text.index(end) :]


def test_other_symbols():
    assert taken(OURS, "N") == OURS.replace("N = 2", "N = 1")
    ours = OURS.replace("a: int = 1", "a: int = 2").replace("return os", "return 1")
    assert taken(ours, "C.go") == ours.replace("return 1", "return os")
    assert taken(ours, "C") == ours
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
    assert squeezed(taken(unused, symbol, less, removes=True)) == squeezed(less)
    assert taken(unused, symbol, less) is None


CLASS = BASE.replace("class C:", "# about C\nclass C(object):")
MINE = CLASS.replace("a: int = 1", "a: int = 2\n    b: int = 2").replace("return os", "return 2")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(
    "change", [("object", "dict"), ("about C", "what C is"), ("class C", "@os.mark\nclass C")]
)
def test_class_keeps_the_users_members(change, layout):
    """What is in conflict is its header or the comment above it."""
    theirs = CLASS.replace("a: int = 1", "a: int = 3").replace(*change)
    assert taken(layout(MINE), "C", theirs) == layout(MINE.replace(*change))


def test_nested_class_keeps_the_users_members():
    text = "class A:\n    class B({0}):\n        a = {1}\n\n    b = {1}\n"
    assert taken(text.format("dict", 2), "A.B", text.format("list", 3)) == text.format("list", 2)


def test_class_that_both_added():
    theirs = CLASS.replace("object", "dict").replace("a: int = 1", "c: int = 3")
    assert taken(MINE, "C", theirs, added=True) == theirs


def test_class_renamed_by_the_user_is_not_one_that_both_added():
    ours = CLASS.replace("C(", "Mine(").replace("a: int = 1", "a: int = 2")
    theirs, expected = CLASS.replace("object", "dict"), ours.replace("object", "dict")
    assert taken(ours, "Mine", theirs, added=True) == expected


@pytest.mark.parametrize("last", ["return x", "x.sum()"])
def test_renamed_by_the_user_and_rewritten_by_the_template(last):
    """Who `mine` was can no longer be told: it stays."""
    ours = f"N = 1\n\n\ndef mine(x):\n    a = 1\n    b = 2\n    {last}\n"
    theirs = "N = 1\n\n\ndef f(x, y, z):\n    for i in range(y):\n        z += i\n    return z\n"
    assert taken(ours, "mine", theirs) is None
    assert squeezed(taken(ours, "mine", theirs, removes=True)) == "N = 1"


@pytest.mark.parametrize("lines", [0, 100])
def test_renamed_by_the_user(lines):
    """However long it is: words that stand in it often are words too."""

    def longer(text, more):
        new = "".join(f"    x = x + {i}{more}\n" for i in range(lines))
        return text.replace("    a = 1\n", f"    a = 1\n{new}")

    ours = longer(BASE, ".5").replace("loss", "mine").replace("N = 1", "N = 2")
    assert taken(ours, "mine", longer(THEIRS, "")) == longer(TAKEN, "").replace("loss", "mine")


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


@pytest.mark.parametrize("last", ["c", "cd"])
def test_a_value_goes_below_the_function_that_makes_it(last):
    """Which the user has moved below what the value follows."""
    a, b, *rest = (f"def {name}():\n    return 1\n" for name in f"ab{last}")
    theirs = "\n\n".join([b, a, "D = b()\n", *rest])
    taken = take("\n\n".join([a, b, *rest]).encode(), theirs.encode(), "D")
    assert taken.decode() == "\n\n".join([a, b, "D = b()\n", *rest])


def test_a_symbol_is_in_the_places_that_reach_into_it():
    """A place of no lines, where something is put, is in what has lines on both sides of it."""
    lines = ["x = [\n", "    1,\n", "]\n", "y = 2\n"]
    pairs = [pair for pair in pair_spots(lines, lines) if pair[0].path in ("x", "y")]
    assert [pair[0].row for pair in pairs] == [0, 3]
    for first, end in combinations_with_replacement(range(len(lines) + 1), 2):
        place = (first, end), (first, end)
        expected = [
            any(first <= row < end for row in rows) or first == end and rows[0] < first <= rows[-1]
            for rows in (range(3), range(3, 4))
        ]
        assert [touches(pair, place) for pair in pairs] == expected, place


def test_an_attribute_is_none_of_a_function_that_is_gone():
    ours, theirs = b"def f():\n    pass\n\n\nx = 1\nx.f\n", b"x = 1\n"
    check_names(ours, theirs, b"x = 1\nx.f\n")
    member = b"class C:\n    f = 1\n    g = 2\n\n\nC().f\n"
    with pytest.raises(CannotTake, match="your file still uses f"):
        check_names(member, b"class C:\n    g = 2\n", b"class C:\n    g = 2\n\n\nC().f\n")
