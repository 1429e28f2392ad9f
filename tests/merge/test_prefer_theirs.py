"""The template's side of a conflict, where the user takes it."""

import sys

import pytest
from merge.edits import parses
from merge.halves import HALVES
from merge.test_cases import CASES, parts

from redco_merge import WHOLE, merge, merge_text, python, symbol_text

FRAME = "import os\n\nA = {}\n\n\n{}\n\n# between\nB = {}\n"
LAYOUTS = {
    "plain": lambda text: text,
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "tabs": lambda text: text.replace("    ", "\t"),
    "no-end": lambda text: text.removesuffix("\n"),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("case", HALVES.values(), ids=HALVES)
def test_one_symbol(case, layout):
    """It becomes the template's, and what the two changed around it is merged as ever."""
    symbol, *texts = case
    last = [texts[3]] if len(texts) > 3 else [texts[2]]
    values = (1, 1), (2, 1), (1, 3), (2, 3)
    sides = zip(values, [*texts[:3], *last], strict=True)
    frames = [FRAME.format(a, text, b) for (a, b), text in sides]
    base, ours, theirs, expected = frames
    args = base.encode(), layout(ours).encode(), theirs.encode()
    assert symbol in [x.symbol for x in merge(*args).conflicts]
    merged = merge(*args, prefer_theirs=[symbol])
    assert squeezed(merged.content.decode()) == squeezed(layout(expected))
    assert merged.conflicts == []


def squeezed(text: str) -> str:
    """Without blank lines, of which a symbol that comes or goes leaves more or fewer."""
    return "\n".join(line for line in text.split("\n") if line.strip())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    """All conflicts of a file: each is in the result as the template has it, or says why not."""
    base, ours, theirs = (parts(path)[x].encode() for x in ("base", "ours", "theirs"))
    plain = merge(base, ours, theirs)
    merged = merge(base, ours, theirs, prefer_theirs=[x.symbol for x in plain.conflicts])
    stay = {x.symbol: x for x in merged.conflicts}
    assert parses(merged.content.decode())
    assert set(STAY.get(path.stem, [])) == stay.keys() <= {x.symbol for x in plain.conflicts}
    assert all("; it cannot be taken by itself" in x.reason for x in stay.values())
    for x in plain.conflicts:
        if x.symbol not in stay:
            assert x.theirs in merged.content.decode()
    kept = [x.symbol for x in plain.conflicts if x.symbol in stay]
    if len(kept) == len(plain.conflicts):
        assert merged.content == plain.content


STAY = {
    "deleted_by_user_used_by_new_code": ["b"],
    "from_import_split_by_user": ["new", "x"],
    "import_in_user_style_of_comment": ["b", "x"],
    "import_rebound_by_both": ["np"],
    "moved_to_a_module": ["a"],
    "own_name_taken_by_template": ["mask"],
    "owned_deleted_by_user": ["loss"],
    "removed_by_template_used": ["a"],
    "removed_member_used": ["C.b"],
}


def test_names_that_are_not_in_conflict_change_nothing():
    for path in CASES:
        sides = [parts(path)[x].encode() for x in ("base", "ours", "theirs")]
        plain = merge(*sides)
        told = {x.symbol for x in plain.conflicts}
        names = {"f", "C", "a", "np", "no.such", "", "line 1", WHOLE} - told
        assert merge(*sides, prefer_theirs=names) == plain


BASE = b"def f():\n    return 1\n\n\ndef g():\n    return 1\n"
OURS = b"def f():\n    return 2\n\n\ndef g():\n    return 2\n"
THEIRS = b"def f():\n    return 3\n\n\ndef g():\n    return 3\n"


def test_one_of_two():
    merged = merge(BASE, OURS, THEIRS, prefer_theirs=["g"])
    assert merged.content == OURS.replace(b"g():\n    return 2", b"g():\n    return 3")
    assert [x.symbol for x in merged.conflicts] == ["f"]


def test_one_that_can_and_one_that_cannot():
    extra, end = b"\n\ndef old():\n    return 1\n", b"\n\nz = 1\n"
    base, ours = BASE + extra + end, OURS + extra + end + b"\n\nold()\n"
    merged = merge(base, ours, THEIRS + end, prefer_theirs=["old", "f", "g"])
    assert merged.content == THEIRS + extra + end + b"\n\nold()\n"
    reason = "the template removes it, and your file still uses it; it cannot be taken by itself"
    reason += ": your file still uses old"
    assert [(x.symbol, x.reason) for x in merged.conflicts] == [("old", reason)]


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("__doc__", '"""{0}."""\n\nA = {0}\n'),
        ("<end>", "A = 1\n\n# {0}\n"),
        ("<head>", "# {0}\n\nA = {0}\n"),
    ],
)
def test_both_ends_of_a_file(symbol, text):
    base, ours, theirs = (text.format(n).encode() for n in (1, 2, 3))
    assert symbol in [x.symbol for x in merge(base, ours, theirs).conflicts]
    merged = merge(base, ours, theirs, prefer_theirs=[symbol])
    assert symbol_text(merged.content, symbol) == symbol_text(theirs, symbol)
    assert (b"A = 2" in ours) == (b"A = 2" in merged.content)


MAIN = b'if __name__ == "__main__":\n    n = 1\n    main(n)\n'


def test_an_import_that_only_the_edit_needs_is_said_to_be_of_no_use():
    base = b"from m import a, b\n\n\ndef f():\n    return a\n\n\ndef g():\n    return b\n"
    ours = base.replace(b"return a", b"return a + 1")
    theirs = base.replace(b"a, b", b"b").replace(b"return a", b"return 2")
    (note,) = merge(base, ours, theirs).warnings
    (now,) = merge(base, ours, theirs, prefer_theirs=["f"]).warnings
    assert note.endswith("`a`; your file still uses it") and "`a`, and nothing in your" in now


def test_name_that_only_the_edit_defines():
    ours = MAIN.replace(b"n = 1", b"n = mine = 2") + b"print(mine)\n"
    theirs = MAIN.replace(b"n = 1", b"n = 3")
    merged = merge(MAIN, ours, theirs, prefer_theirs=["__main__"])
    assert merged.content == ours
    (left,) = merged.conflicts
    assert left.reason.endswith("cannot be taken by itself: your file still uses mine")


def test_whole_file():
    ours = OURS + b"def (:\n"
    assert merge(BASE, ours, THEIRS, prefer_theirs=[WHOLE]).content == THEIRS
    assert merge(BASE, ours, THEIRS, prefer_theirs=["f"]) == merge(BASE, ours, THEIRS)
    assert merge_text(b"a\0", b"b\0", b"c\0", prefer_theirs=[WHOLE]).content == b"c\0"


TEXT = b"[model]\nname = 1\n\n[train]\nsteps = 1\n\n[data]\nbatch = 1\n"
MINE = TEXT.replace(b"= 1", b"= 2\nmore = 2")
OTHER = TEXT.replace(b"= 1", b"= 3")


@pytest.mark.parametrize("layout", [lambda x: x, lambda x: x.replace(b"\n", b"\r\n")])
def test_lines(layout):
    plain = merge_text(TEXT, layout(MINE), OTHER)
    assert [x.symbol for x in plain.conflicts] == ["line 2", "line 6", "line 10"]
    merged = merge_text(TEXT, layout(MINE), OTHER, prefer_theirs=["line 6", "line 7"])
    assert merged.content == layout(MINE.replace(b"steps = 2\nmore = 2", b"steps = 3"))
    assert merged.conflicts == [plain.conflicts[0], plain.conflicts[2]]
    every = merge_text(TEXT, layout(MINE), OTHER, prefer_theirs=[x.symbol for x in plain.conflicts])
    assert every.content == layout(OTHER)


def test_any_failure_leaves_the_conflict(monkeypatch):
    def fails(*_):
        raise RecursionError("deep")

    monkeypatch.setattr(python, "with_symbol_of", fails)
    merged = merge(BASE, OURS, THEIRS, prefer_theirs=["f"])
    assert merged.content == merge(BASE, OURS, THEIRS).content == OURS
    assert [x.symbol for x in merged.conflicts] == ["f", "g"]
    assert "cannot be taken by itself: RecursionError: deep" in merged.conflicts[0].reason


@pytest.mark.parametrize(
    "wrong",
    [
        OURS.replace(b"2", b"1"),
        OURS.replace(b"return 2", b"return 1", 1) + b"x = 1\n",
        OURS.replace(b"return 2", b"return 7", 1),
        OURS[OURS.index(b"def g") :],
        BASE[: BASE.index(b"def g")],
        OURS.replace(b"return 2", b"return 1", 1).replace(b"\n", b"\r\n"),
        OURS + b"# more\n",
    ],
)
def test_an_edit_of_more_than_the_symbol_is_refused(wrong, monkeypatch):
    module = sys.modules["redco_merge.take"]
    monkeypatch.setattr(module, "without_gap", lambda *_: wrong.decode().splitlines(True))
    merged = merge(BASE, OURS, THEIRS, prefer_theirs=["f"])
    assert merged.content == OURS
    assert [x.symbol for x in merged.conflicts] == ["f", "g"]
