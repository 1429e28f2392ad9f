"""The verifier, on wrong results made by hand."""

import ast
import inspect

import pytest

from redco_merge import (
    Conflict,
    limit,
    result,
    verify,
    verify_blocks,
    verify_ledger,
    verify_text,
)
from redco_merge.verify import Terms, merge_faults, told_faults

BASE = """\
import os
from m import a, b

N = 1


def f(x):
    y = x
    return y


class C:
    p: int = 1
    q: int = 2

    def go(self):
        return self.p


# a remark
setup(a, b, os)
"""
OURS = (
    BASE.replace("import os", "import os\nimport mine")
    .replace("N = 1", "N = 2  # mine")
    .replace("y = x", "y = x + 10")
    .replace("# a remark", "# a remark\n# another remark")
)
THEIRS = (
    BASE.replace("import a, b", "import a, b, c")
    .replace("return y", "return c(y)")
    .replace("q: int = 2", "q: int = 3\n    r: int = 4")
)
RIGHT = (
    OURS.replace("import a, b", "import a, b, c")
    .replace("return y", "return c(y)")
    .replace("q: int = 2", "q: int = 3\n    r: int = 4")
)


def found(result: str | bytes, ours: str = OURS, theirs: str = THEIRS, told=(), owned=(), left=""):
    """left: theirs without what is told."""
    content = result if isinstance(result, bytes) else result.encode()
    base, mine, other = (x.encode() for x in (BASE, ours, theirs))
    terms = Terms(base, mine, left.encode() or other)
    faults = [*told_faults(base, mine, other, terms, told, owned)]
    return faults or merge_faults(*terms, content, owned)


def test_right_result():
    assert found(RIGHT) == []


def test_layout_is_no_fault():
    assert found(RIGHT.replace("c(y)", "(\n        c(y)\n    )").replace("2  #", "2 #")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import mine\n", ""),
        ("import os\n", ""),
        (", c\n", "\n"),
        ("import a, b, c", "import a, b, c, d"),
        ("N = 2", "N = 1"),
        ("  # mine", ""),
        ("N = 2  # mine\n", ""),
        ("N = 2  # mine\n", "N = 2  # mine\nN = 2  # mine\n"),
        ("x + 10", "x"),
        ("c(y)", "y"),
        ("c(y)", "c(y, y)"),
        ("c(y)", "undefined(y)"),
        ("q: int = 3", "q: int = 2"),
        ("    r: int = 4\n", ""),
        ("    def go(self):\n        return self.p\n", ""),
        ("# another remark\n", ""),
        ("# another remark", "# another remark # another remark"),
        ("setup(a, b, os)", "setup(a, b)"),
        ("setup(a, b, os)", "setup(a, b, os)\nsetup(a, b, os)"),
        ("class C:", "class D:"),
        ("return c(y)", "return c(y"),
        ("def f", "async def f"),
    ],
)
def test_wrong_result(old, new):
    assert old in RIGHT
    assert found(RIGHT.replace(old, new))


@pytest.mark.parametrize(
    "spoilt",
    [
        RIGHT.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + RIGHT.encode(),
        RIGHT.encode()[:-1],
        b"# coding: latin-1\n" + RIGHT.encode(),
        b"",
    ],
    ids=["crlf", "bom", "no-end", "cookie", "empty"],
)
def test_spoilt_bytes(spoilt):
    assert found(spoilt)


F = BASE[BASE.index("def f") : BASE.index("class C")]
NEW_F = THEIRS[THEIRS.index("def f") : THEIRS.index("class C")]
LEFT = THEIRS.replace(NEW_F, F).replace("import a, b, c", "import a, b")
KEPT = RIGHT.replace("return c(y)", "return y").replace("import a, b, c", "import a, b")


def test_users_side_is_a_result_only_if_the_rest_is_told():
    assert found(OURS)
    assert found(OURS, theirs=BASE) == []
    assert found(KEPT)
    assert found(KEPT, left=LEFT)
    assert found(KEPT, left=LEFT, told=[Conflict("f", NEW_F, "both")]) == []
    assert found(KEPT, left=LEFT, told=[Conflict("f", "", "the template's side is not shown")])
    assert found(KEPT, left=LEFT, told=[Conflict("N", NEW_F, "another symbol")])


@pytest.mark.parametrize(
    "left",
    [
        LEFT.replace("y = x", "y = x + 1"),
        LEFT.replace("import os", "import os\nimport sys"),
        LEFT.replace("# a remark", "# a remark\n# nobody's"),
        LEFT.replace("    r: int = 4\n", ""),
        LEFT.replace("# a remark\n", ""),
        LEFT.replace("import os\n", ""),
        LEFT.replace("import os", "import os\nfrom m2 import a"),
    ],
)
def test_what_is_merged_is_the_templates_but_for_what_is_told(left):
    base, ours, theirs = (x.encode() for x in (BASE, OURS, THEIRS))
    terms = Terms(base, ours, left.encode())
    assert [*told_faults(base, ours, theirs, terms, [Conflict("f", NEW_F, "both")])]


@pytest.mark.parametrize(
    ("base", "ours"),
    [
        (BASE.replace("N = 1", "N = 2"), OURS),
        (BASE, OURS.replace("x + 10", "x")),
        (BASE, OURS.replace("  # mine", "")),
        (BASE, OURS.replace("import mine\n", "")),
        (BASE, OURS.replace("import mine", "import mine\nimport sys")),
    ],
)
def test_what_is_merged_is_of_the_base_and_the_user(base, ours):
    terms = Terms(base.encode(), ours.encode(), THEIRS.encode())
    assert [*told_faults(BASE.encode(), OURS.encode(), THEIRS.encode(), terms, [])]


def test_names_of_the_user_are_the_templates_old_ones():
    ours, theirs = OURS.replace("def f", "def mine_f"), THEIRS
    terms = Terms(*(x.replace("def f", "def mine_f").encode() for x in (BASE, OURS, THEIRS)))
    sides = BASE.encode(), ours.encode(), theirs.encode()
    assert [*told_faults(*sides, terms, [], renames={"f": "mine_f"})] == []
    assert [*told_faults(*sides, terms, [])]
    assert [*told_faults(*sides, terms._replace(theirs=sides[2]), [], renames={"f": "mine_f"})]


def test_deletion_by_the_user_stays():
    ours = OURS[: OURS.index("class C")] + OURS[OURS.index("# a remark") :]
    right = RIGHT[: RIGHT.index("class C")] + RIGHT[RIGHT.index("# a remark") :]
    shown = THEIRS[THEIRS.index("class C") : THEIRS.index("# a remark")]
    left = THEIRS.replace(shown, BASE[BASE.index("class C") : BASE.index("# a remark")])
    assert found(RIGHT, ours=ours)
    assert found(right, ours=ours, left=left)
    assert found(right, ours=ours, left=left, told=[Conflict("C", shown, "you deleted it")]) == []


def test_what_each_side_defines_once_is_not_there_twice():
    assert "N: defined 2 times" in found(RIGHT.replace("N = 2", "N = 3\nN = 2"))
    imported = RIGHT.replace("import mine", "import mine\nimport other as mine")
    assert "mine: imported from 2 places" in found(imported)
    overload = "@overload\ndef f(x: int): ...\n\n\n"  # which are defined twice, and once without a decorator
    sides = [x.replace("def f", f"{overload}def f") for x in (OURS, THEIRS, RIGHT)]
    twice = sides[2].replace(overload, overload.replace("@overload\n", ""))
    assert "f: defined 2 times" in found(twice, *sides[:2])


def test_owned():
    pending = Conflict("f", NEW_F, "yours", pending=True)
    assert found(RIGHT, owned=("f",))
    assert found(KEPT, owned=("f",), left=LEFT, told=[pending]) == []
    assert found(KEPT, left=LEFT, told=[pending])


def test_the_verifier_shares_no_code_with_the_merge():
    """All that it gets from the package is the type of a result, what Python's parser says of chunks, and its own reading."""
    names = set()
    modules = limit, result, verify, verify_blocks, verify_ledger, verify_text
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            names |= {node.module} if isinstance(node, ast.ImportFrom) else set()
    ours = {name for name in names if name.startswith("redco_")}
    own = "limit", "result", "verify_blocks", "verify_ledger", "verify_text"
    assert ours == {f"redco_merge.{name}" for name in own}
