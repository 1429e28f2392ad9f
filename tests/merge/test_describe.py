"""What changed from one file to another, as a plan tells it."""

import pytest

from redco_merge import WHOLE, changed_lines, changed_symbols, merge, symbol_text

FILE = '''\
"""A file."""

import os
from m import a, b

N = 1


def f(x):
    return x


# about C
class C(Base):
    """Doc."""

    p: int = 1

    def go(self):
        return self.p


def unused():
    return 1


if __name__ == "__main__":
    f(a, b, os)
# the end
'''


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("return x", "return -x", [("~", "f")]),
        ("return self.p", "return 1", [("~", "C.go")]),
        ("p: int = 1\n", "p: int = 1\n    q: int = 2\n", [("+", "C.q")]),
        ("    p: int = 1\n\n", "", [("-", "C.p")]),
        ('"""Doc."""', '"""Docs."""', [("~", "C.__doc__")]),
        ("C(Base)", "C(Other)", [("~", "C")]),
        ("about C", "about it", [("~", "C")]),
        ("N = 1", "N = 2", [("~", "N")]),
        ("N = 1", "M = 1", [("-", "N"), ("+", "M")]),
        ("A file", "The file", [("~", "__doc__")]),
        ("a, b\n", "a, b, c\n", [("~", "imports")]),
        ("import os\n", "", [("~", "imports")]),
        ("import os\n", "# why\nimport os  # so\n", [("~", "imports")]),
        ("f(a, b, os)", "f(a)", [("~", "__main__")]),
        ("the end", "an end", [("~", "<end>")]),
        ("def unused():\n    return 1\n\n\n", "", [("-", "unused")]),
        ("def f", "class Adapter:\n    a = 1\n\n\ndef f", [("+", "Adapter")]),
        ("return 1\n", "return 1\n\n\ndef (:\n", [("~", WHOLE)]),
        ("N = 1", "N = '\\ud800'\n\0", [("~", WHOLE)]),
    ],
)
def test_changes(old, new, expected):
    assert old in FILE
    after = FILE.replace(old, new, 1).encode("utf-8", "surrogatepass")
    assert changed_symbols(FILE.encode(), after) == expected
    back = {"+": "-", "-": "+", "~": "~"}
    there = changed_symbols(after, FILE.encode())
    assert sorted(there) == sorted((back[sign], symbol) for sign, symbol in expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n", "\r\n"),
        ("    ", "\t"),
        ("return x", "return (\n        x\n    )"),
        ("import os\nfrom m import a, b\n", "from m import b, a\nimport os\n"),
        ("\n\n\n", "\n\n\n\n"),
        ('"""', "'''"),
        ("# about C", "#about C "),
    ],
)
def test_layout_is_no_change(old, new):
    assert old in FILE
    assert changed_symbols(FILE.encode(), FILE.replace(old, new).encode()) == []


def test_order_is_that_of_the_file():
    after = FILE.replace("return x", "return -x").replace("N = 1\n", "O = 1\n")
    after = after.replace("C(Base)", "C(Other)").replace("p: int = 1", "p: int = 2")
    after = after.replace("def unused():\n    return 1\n\n\n", "").replace("import os\n", "")
    assert changed_symbols(FILE.encode(), (after + "LAST = 1\n").encode()) == [
        ("~", "imports"),
        ("-", "N"),
        ("+", "O"),
        ("~", "f"),
        ("~", "C"),
        ("~", "C.p"),
        ("-", "unused"),
        ("+", "LAST"),
        ("~", "<end>"),
    ]


def test_moved_symbols_are_no_change():
    f = FILE[FILE.index("def f") : FILE.index("# about C")]
    moved = FILE.replace(f, "").replace("def unused", f"{f}def unused")
    assert moved != FILE
    assert changed_symbols(FILE.encode(), moved.encode()) == []


def test_new_and_broken_files():
    assert changed_symbols(b"", b"N = 1\n") == [("+", "N")]
    assert changed_symbols(b"N = 1\n", b"") == [("-", "N")]
    assert changed_symbols(b"def (:\n", b"def (:\n") == []
    assert changed_symbols(b"def (:\n", b"def f(:\n") == [("~", WHOLE)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\nd\n", (2, 1)),
        (b"a\nb\n", b"a\r\nb", (0, 0)),
        (b"", b"a\nb\n", (2, 0)),
        (b"a\nb\n", b"", (0, 2)),
        (b"\xff\n\0\n", b"\xfe\n\0\n", (1, 1)),
    ],
)
def test_lines(before, after, expected):
    assert changed_lines(before, after) == expected


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("f", "def f(x):\n    return x\n"),
        ("C.go", "    def go(self):\n        return self.p\n"),
        ("C.p", "    p: int = 1\n"),
        ("C.__doc__", '    """Doc."""\n'),
        ("N", "N = 1\n"),
        ("a", "from m import a, b\n"),
        ("os", "import os\n"),
        ("<end>", "# the end\n"),
        ("__main__", 'if __name__ == "__main__":\n    f(a, b, os)\n'),
        (WHOLE, FILE),
        ("C", FILE[FILE.index("# about C") : FILE.index("\n\ndef unused")]),
        ("no_such", None),
        ("C.no_such", None),
        ("D.go", None),
        ("", None),
    ],
)
def test_symbol_text(symbol, expected):
    for layout in (FILE, FILE.replace("\n", "\r\n"), "\ufeff" + FILE):
        text = symbol_text(layout.encode(), symbol)
        assert (text and text.replace("\r\n", "\n")) == expected


def test_symbol_text_is_what_a_conflict_shows():
    ours, theirs = FILE.replace("return", "return 2 +"), FILE.replace("return", "return 3 +")
    conflicts = merge(FILE.encode(), ours.encode(), theirs.encode()).conflicts
    assert [x.symbol for x in conflicts] == ["f", "C.go", "unused"]
    for conflict in conflicts:
        assert symbol_text(theirs.encode(), conflict.symbol) == conflict.theirs


@pytest.mark.parametrize("broken", [b"def (:\n", b"\0", b"\xff", b"x = " + b"(" * 300 + b")" * 300])
def test_symbol_text_of_a_broken_file(broken):
    assert symbol_text(broken, "f") is None
    assert isinstance(symbol_text(broken, WHOLE), str)
