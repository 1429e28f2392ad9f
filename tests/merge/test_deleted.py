"""What the user deleted stays deleted, wherever the template moves it to, and whatever merges."""

import pytest

from redco_merge import MergeResult, merge
from redco_merge.verify import merge_faults

BASE = """\
import typing as t

x = 1


def f(name):
    words = name.split()
    return words[0]


class C:
    def go(self):
        return self.first + self.last

    def stay(self):
        return self
"""
F = BASE[BASE.index("def f") : BASE.index("\n\nclass")]
GO = BASE[BASE.index("    def go") : BASE.index("    def stay")]
INNER = F.replace("\n    ", "\n        ").replace("def f", "    def f")
MOVES = {
    "into a block": (F, f"if not t.TYPE_CHECKING:\n\n{INNER}"),
    "into a try": (F, f"try:\n    import fast\nexcept ImportError:\n\n{INNER}"),
    "into a class": (F, f"class Names:\n{INNER}"),
    "into a function": (F, f"def g():\n{INNER}\n    return f\n"),
    "to another name": (F, F.replace("def f", "def first_word")),
    "down": (BASE, BASE.replace(F, "") + "\n\n" + F),
    "laid out anew, in a block": (F, f"if x:\n{INNER}".replace("(name)", "(\n        name\n    )")),
    "out of its class": (GO, ""),
    "below its neighbour": (GO, ""),
}


def moved(name: str) -> str:
    old, new = MOVES[name]
    text = BASE.replace(old, new)
    if name == "out of its class":
        text += "\n\n" + GO.replace("    def", "def").replace("        return", "    return")
    return text + "\n" + GO.rstrip("\n") + "\n" if name == "below its neighbour" else text


def users(name: str) -> str:
    return BASE.replace(GO if name in ("out of its class", "below its neighbour") else F, "")


@pytest.mark.parametrize("name", MOVES)
def test_it_is_not_back(name):
    ours = users(name)
    merged = merge(BASE.encode(), ours.encode(), moved(name).encode())
    for line in ("return words[0]", "return self.first + self.last"):
        assert (line in merged.content.decode()) == (line in ours)
    assert merged.conflicts or name in ("down", "out of its class", "below its neighbour")


@pytest.mark.parametrize("name", MOVES)
def test_the_check_refuses_it_whatever_the_merge_did(name):
    sides = BASE.encode(), users(name).encode(), moved(name).encode()
    for wrong in (moved(name), users(name) + "\n\n" + moved(name)):
        assert merge_faults(*sides, wrong.encode())


def test_what_the_template_adds_is_no_return():
    theirs = BASE + "\n\ndef other(name):\n    words = name.split()\n    return words[0]\n"
    ours = BASE.replace("x = 1\n", "x = 1\ny = 2\n")
    merged = merge(BASE.encode(), ours.encode(), theirs.encode())
    assert merged == MergeResult(theirs.replace("x = 1\n", "x = 1\ny = 2\n").encode())
