"""The verifier, on wrong results made by hand."""

import ast
import inspect

import pytest

from redco_merge import (
    Conflict,
    MergeResult,
    memory,
    result,
    trees,
    verify,
    verify_balance,
    verify_blocks,
    verify_ledger,
    verify_pieces,
    verify_text,
)
from redco_merge.verify import merge_faults

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


def found(result: str | bytes, ours: str = OURS, theirs: str = THEIRS, told=(), owned=()):
    content = result if isinstance(result, bytes) else result.encode()
    merged = MergeResult(content, list(told))
    return merge_faults(BASE.encode(), ours.encode(), theirs.encode(), merged, owned)


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


def test_users_side_is_a_result_only_if_the_rest_is_told():
    assert found(OURS)
    assert found(OURS, theirs=BASE) == []
    shown = THEIRS[THEIRS.index("def f") : THEIRS.index("class C")]
    kept = RIGHT.replace("return c(y)", "return y")
    assert found(kept)
    assert found(kept, told=[Conflict("f", shown, "both")]) == []
    assert found(kept, told=[Conflict("f", "", "the template's side is not shown")])
    assert found(kept, told=[Conflict("N", shown, "another symbol")])


def test_deletion_by_the_user_stays():
    ours = OURS[: OURS.index("class C")] + OURS[OURS.index("# a remark") :]
    right = RIGHT[: RIGHT.index("class C")] + RIGHT[RIGHT.index("# a remark") :]
    shown = THEIRS[THEIRS.index("class C") : THEIRS.index("# a remark")]
    assert found(RIGHT, ours=ours)
    assert found(right, ours=ours)
    assert found(right, ours=ours, told=[Conflict("C", shown, "you deleted it")]) == []


def test_owned():
    shown = THEIRS[THEIRS.index("def f") : THEIRS.index("class C")]
    kept = RIGHT.replace("return c(y)", "return y")
    pending = Conflict("f", shown, "yours", pending=True)
    assert found(RIGHT, owned=("f",))
    assert found(kept, owned=("f",), told=[pending]) == []
    assert found(kept, told=[pending])


def test_the_verifier_shares_no_code_with_the_merge():
    """All that it gets from the package is the type of a result, what Python's parser says of chunks, and its own reading."""
    names = set()
    for module in (
        verify,
        verify_balance,
        verify_blocks,
        verify_ledger,
        verify_pieces,
        verify_text,
        memory,
        result,
        trees,
    ):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            names |= {node.module} if isinstance(node, ast.ImportFrom) else set()
    ours = {name for name in names if name.startswith("redco_")}
    own = (
        "limit",
        "memory",
        "result",
        "trees",
        "verify_balance",
        "verify_blocks",
        "verify_ledger",
        "verify_pieces",
        "verify_text",
    )
    assert ours == {f"redco_merge.{name}" for name in own}


def test_a_remark_is_of_what_a_symbol_says_and_parentheses_are_not():
    one, other, spaced = (
        verify_pieces.read_pieces(f"def f():\n    return {text}\n".encode(), {})
        for text in ("1  # a", "1  # b", "(1)  # a")
    )
    assert one.same("f", spaced) and not one.same("f", other)
