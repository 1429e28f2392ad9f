"""Files in any encoding and layout; files that cannot be merged are kept byte for byte."""

import pytest

from redco_merge import WHOLE, MergeResult, merge, python

BASE = b"a = 1\n\n\ndef f(x):\n    y = x\n    return y\n"
OURS = b"a = 2\n\n\ndef f(x):\n    y = x\n    return y\n"
THEIRS = b"a = 1\n\n\ndef f(x):\n    y = x\n    return -y\n\n\ndef g():\n    return 1\n"
BOTH = b"a = 2\n\n\ndef f(x):\n    y = x\n    return -y\n\n\ndef g():\n    return 1\n"
COOKIE = b"# -*- coding: latin-1 -*-\n"


def tabs(text: bytes) -> bytes:
    return text.replace(b"    ", b"\t")


def kept_whole(merged: MergeResult, ours: bytes) -> bool:
    return merged.content == ours and [x.symbol for x in merged.conflicts] == [WHOLE]


@pytest.mark.parametrize(
    ("ours", "both"),
    [
        (OURS, BOTH),
        (tabs(OURS), tabs(BOTH)),
        (OURS.replace(b"\n", b"\r\n"), BOTH.replace(b"\n", b"\r\n")),
        (b"\xef\xbb\xbf" + OURS, b"\xef\xbb\xbf" + BOTH),
        (OURS[:-1], BOTH[:-1]),
        (b"\x0c" + OURS, b"\x0c" + BOTH),
        (COOKIE + b"b = '\xe9'\n" + OURS, COOKIE + b"b = '\xe9'\n" + BOTH),
        (OURS.replace(b"    ", b"  "), BOTH.replace(b"    ", b"  ")),
    ],
    ids=["plain", "tabs", "crlf", "bom", "no-end", "form-feed", "latin-1", "two-spaces"],
)
def test_layout_stays(ours, both):
    assert merge(BASE, ours, THEIRS) == MergeResult(both)


def test_lines_of_the_user_keep_their_ending():
    mixed = OURS.replace(b"a = 2\n", b"a = 2\r\n")
    assert merge(BASE, mixed, THEIRS) == MergeResult(BOTH.replace(b"a = 2\n", b"a = 2\r\n"))


def test_tabs_in_a_docstring_of_the_template():
    theirs = (
        BASE + b'\n\ndef g():\n    """Doc.\n\n    More.\n    """\n    return """\n    as is"""\n'
    )
    ours = tabs(OURS)
    new = b'\n\ndef g():\n\t"""Doc.\n\n\tMore.\n\t"""\n\treturn """\n    as is"""\n'
    assert merge(BASE, ours, theirs) == MergeResult(ours + new)


@pytest.mark.parametrize(
    "ours",
    [
        OURS + b"b = '\xff'\n",
        OURS + b"def (:\n",
        OURS + b"\0",
        OURS.replace(b"\n", b"\r"),
        b"# coding: no-such\n" + OURS,
        b"x = " + b"(" * 300 + b")" * 300,
        b"x = " + b"-" * 5000 + b"1\n",
    ],
    ids=["bytes", "syntax", "zero", "cr", "cookie", "nesting", "depth"],
)
def test_kept_whole(ours):
    assert kept_whole(merge(BASE, ours, THEIRS), ours)
    assert merge(BASE, ours, BASE) == MergeResult(ours)
    assert merge(ours, ours, THEIRS) == MergeResult(THEIRS)


@pytest.mark.parametrize("broken", [b"def (:\n", b"\xff", b"\0"])
def test_broken_template(broken):
    assert kept_whole(merge(BASE, OURS, broken), OURS)
    assert kept_whole(merge(broken, OURS, THEIRS), OURS)


def test_character_that_the_encoding_lacks():
    ours = COOKIE + OURS
    assert kept_whole(merge(BASE, ours, BASE + "b = '→'\n".encode()), ours)


@pytest.mark.parametrize("side", [b"", b"\n", b"# only a comment", b"\x0c"])
def test_next_to_nothing(side):
    for sides in ((side, OURS, THEIRS), (BASE, side, THEIRS), (BASE, OURS, side)):
        merged = merge(*sides)
        assert compile(merged.content, "merged", "exec")


class Panic(BaseException):
    """What a parser written in Rust raises."""


def test_any_failure_keeps_the_file(monkeypatch):
    for error in (Panic, RecursionError, MemoryError, AssertionError):
        monkeypatch.setattr(
            python, "_merge_checked", lambda *_, e=error: (_ for _ in ()).throw(e())
        )
        assert kept_whole(merge(BASE, OURS, THEIRS), OURS)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupt_is_the_users(monkeypatch, error):
    monkeypatch.setattr(python, "_merge_checked", lambda *_: (_ for _ in ()).throw(error))
    with pytest.raises(error):
        merge(BASE, OURS, THEIRS)


def test_warnings_about_the_users_code_are_no_errors():
    ours = OURS + b"b = '\\d'\n"
    assert merge(BASE, ours, THEIRS).conflicts == []


def test_owned_names_are_an_argument():
    base = BASE.replace(b"y = x\n", b"y = x\n    z = y\n")
    ours = base.replace(b"return y", b"return y + 1")
    theirs = base.replace(b"y = x", b"y = x * 1")
    assert merge(base, ours, theirs).conflicts == []
    merged = merge(base, ours, theirs, owned=("f",))
    assert merged.content == ours
    assert [(x.symbol, x.pending) for x in merged.conflicts] == [("f", True)]
