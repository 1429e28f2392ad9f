"""The check that an edit is of one symbol, on wrong edits made by hand."""

import pytest
from merge.test_verify import BASE, OURS

from redco_merge import merge, python, symbol_text
from redco_merge.verify import Edit, edit_faults

RIGHT = OURS.replace("y = x + 10", "y = x")


def found(swapped: str, symbol: str = "f", whole: bool = True, ours: str = OURS) -> list[str]:
    texts = (symbol_text(side.encode(), symbol) or "" for side in (ours, BASE))
    edit = Edit(symbol, whole, *texts, names={})
    return [*edit_faults(ours.encode(), BASE.encode(), swapped.encode(), edit)]


def test_right_edit():
    assert found(RIGHT) == found(OURS) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("N = 2", "N = 1"),
        ("  # mine", ""),
        ("y = x", "y = 7"),
        ("return self.p", "return self.q"),
        ("    q: int = 2\n", ""),
        ("p: int = 1\n    q: int = 2", "p: int = 2\n    q: int = 1"),
        ("# another remark\n", ""),
        ("setup(a, b, os)\n", ""),
        ("import mine\n", ""),
        ("N = 2", "f = N = 2"),
        ("N = 2", "f = 1\nN = 2"),
        ("\n", "\r\n"),
        ("return y", "return y\n    return y"),
        ("def f(x):\n    y = x\n    return y\n", ""),
    ],
)
def test_wrong_edit(old, new):
    assert old in RIGHT
    assert found(RIGHT.replace(old, new))


def test_members_stay_where_only_the_header_is_taken():
    ours = BASE.replace("q: int = 2", "q: int = 3")
    assert found(BASE, "C", whole=True, ours=ours) == []
    assert found(BASE, "C", whole=False, ours=ours)[0] == "C.q: changed with C"


def test_comments_of_another_scope():
    ours = BASE.replace("    p: int", "    # remark\n    p: int")
    assert found(BASE, "f", ours=ours)


SIDES = b"f = 1\ng = 1\n", b"f = 2\ng = 2\n", b"f = 3\ng = 3\n"


@pytest.mark.parametrize("wrong", [b"f = 3\ng = undefined\n", b"f = (\n"], ids=["name", "syntax"])
def test_an_edit_that_is_not_right_takes_nothing(wrong, monkeypatch):
    monkeypatch.setattr(python, "with_symbol_of", lambda *_: wrong)
    merged = merge(*SIDES, prefer_theirs=["f"])
    assert merged.content == SIDES[1]
    assert [x.symbol for x in merged.conflicts] == ["f", "g"]
    assert "it cannot be taken by itself" in merged.conflicts[0].reason


def test_one_that_needs_another_behind_it():
    """`a` goes only where `z` no longer uses it; `bad` does not go at all."""
    base = b"a = 1\nbad = 1\nz = a\nw = 1\n"
    ours = b"a = 2\nbad = 2\nz = a + 2\nw = 1\nprint(bad)\n"
    theirs = b"z = 3\nw = 1\n"
    plain = merge(base, ours, theirs)
    assert [x.symbol for x in plain.conflicts] == ["a", "bad", "z"]
    merged = merge(base, ours, theirs, prefer_theirs=["a", "bad", "z"])
    assert merged.content == b"bad = 2\nz = 3\nw = 1\nprint(bad)\n"
    assert [x.symbol for x in merged.conflicts] == ["bad"]


def test_symbol_of_several_places():
    base = b"x = 1\ny = 1\nx = 2\n"
    ours, theirs = (
        base.replace(b"x = 1", b"x = 3"),
        base.replace(b"x = 1", b"x = 5") + b"z = 1\nx = 6\n",
    )
    plain = merge(base, ours, theirs)
    merged = merge(base, ours, theirs, prefer_theirs=["x"])
    assert merged.content == plain.content
    (left,) = merged.conflicts
    assert left.reason.endswith("cannot be taken by itself: it is defined in several places")
