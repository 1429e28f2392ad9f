"""Imports of one place, merged as sets: what each side added is there, and what is unclear is told."""

import pytest

from redco_merge.import_block import merge_import_block
from redco_merge.statements import Statement, cut_statements


def statements(text):
    return [x for x in cut_statements(text.splitlines(keepends=True)) if x.words]


def merged(*sides):
    """The merge of three texts, its statements in one line each; None where it is unclear."""
    block = merge_import_block(*map(statements, sides))
    return block and [
        (
            "".join(word.space + word.text for word in x.words)
            if isinstance(x, Statement)
            else "\n".join(line.rstrip("\n") for line in x)
        ).strip()
        for x in block
    ]


A, B = "from a import x\n", "from b import y\n"
CASES = {
    "a module each": (A + B, "from a import x, z\n" + B, A + "from b import w, y\n"),
    "what one drops and the other edits": (A, "from a import x as y, z\n", ""),
    "what one drops, and the other adds to": (A + B, "from a import w, x, z\n" + B, B),
    "in order": ("from a import b\n", "from a import b, d\n", "from a import b, c\n"),
    "in order, whatever their case": (
        "from a import b\n",
        "from a import b, D\n",
        "from a import b, c\n",
    ),
    "in no order": (A, "from a import x, c\n", "from a import x, b\n"),
    "two meanings of a name": ("", "from a import b as c\n", "from d import c\n"),
    "a meaning that one side changed": (
        "from a import b\n",
        "from c import b\n",
        "from a import b\nfrom d import e\n",
    ),
    "beside other statements": ("", "import a\n", "x = 1\n"),
    "one that is first": ("", "import a\n", "from __future__ import annotations\n"),
    "a remark": ("", "from a import b  # mine\n", "from a import c\n"),
    "twice": ("", "import a\nimport a\n", "import b\n"),
    "over lines": (
        "from a import (\n    x,\n)\n",
        "from a import (\n    x,\n    y,\n)\n",
        "from a import (\n    w,\n    x,\n)\n",
    ),
}
EXPECTED = {
    "a module each": ["from a import x, z", "from b import w, y"],
    "what one drops, and the other adds to": ["from a import w, z", "from b import y"],
    "in order": ["from a import b, c, d"],
    "in order, whatever their case": ["from a import b, c, D"],
    "in no order": ["from a import x, c, b"],
    "a meaning that one side changed": ["from c import b", "from d import e"],
    "one that is first": ["from __future__ import annotations", "import a"],
    "over lines": ["from a import (\n    w,\n    x,\n    y,\n)"],
}


@pytest.mark.parametrize("name", CASES)
def test_imports_of_one_place(name):
    assert merged(*CASES[name]) == EXPECTED.get(name)
