"""One merge a file: base, ours, theirs, what becomes of them, and what the user is told."""

import re
from pathlib import Path

import pytest

from redco_merge import MergeResult, merge

CASES = sorted(Path(__file__).with_name("cases").glob("*.txt"))


def parts(case: Path) -> dict[str, str]:
    """The sections of a case, by name."""
    pieces = re.split(r"^===== (\w+)\n", case.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def told(merged: MergeResult) -> list[str]:
    found = [f"{x.symbol}: {'pending: ' * x.pending}{x.reason}" for x in merged.conflicts]
    return found + [f"warning: {warning}" for warning in merged.warnings]


def merged_as(case: dict[str, str], layout) -> MergeResult:
    base, ours, theirs = (case[name] for name in ("base", "ours", "theirs"))
    return merge(base.encode(), layout(ours).encode(), theirs.encode())


def test_there_are_cases():
    assert len(CASES) >= 60


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    case = parts(path)
    merged = merged_as(case, lambda text: text)
    assert merged.content.decode() == case["merged"]
    assert told(merged) == case["told"].splitlines()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_second_merge_changes_nothing(path):
    case = parts(path)
    base, theirs = case["base"].encode(), case["theirs"].encode()
    once = merge(base, case["ours"].encode(), theirs)
    assert merge(theirs, once.content, theirs).content == once.content
    assert merge(base, once.content, theirs).content == once.content


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    "layout",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.removesuffix("\n"),
    ],
    ids=["crlf", "bom", "no-end"],
)
def test_layout_of_the_file_stays(path, layout):
    case = parts(path)
    merged = merged_as(case, layout)
    assert merged.content.decode() == layout(case["merged"])
    assert told(merged) == case["told"].splitlines()


HELPER = "def helper(x):\n    y = x + 1\n    z = y\n    return z\n"
HOLDER = "class helper:\n    a = 1\n    b = 2\n\n    def go(self):\n        return z\n"


@pytest.mark.parametrize(("text", "symbol"), [(HELPER, "mine"), (HOLDER, "mine.go")])
def test_a_change_of_a_renamed_symbol_that_is_refused_went_nowhere(text, symbol):
    ours = text.replace("helper", "mine").replace("return z", "return z + 2")
    theirs = text.replace("return z", "return z + 3")
    merged = merge(text.encode(), ours.encode(), theirs.encode())
    assert told(merged) == [f"{symbol}: you and the template changed the same place"]
