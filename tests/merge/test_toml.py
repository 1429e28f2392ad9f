"""TOML is merged by key where lines are not enough, and says what both sides changed, or is a conflict."""

import tomllib

import pytest

from functools import partial

from redco_merge import merge_document
from redco_merge.verify_text import toml_faults

merge_toml = partial(merge_document, "pyproject.toml")

BASE = """[project]
name = "a"
dependencies = [
    "flax",
    "jax",
]

[tool.black]
line-length = 100
"""
CASES = {
    "both append": (
        ('    "jax",\n', '    "jax",\n    "mine",  # of mine\n'),
        ('    "jax",\n', '    "jax",\n    "tqdm",\n'),
        ["flax", "jax", "mine", "tqdm"],
    ),
    "one appends, one takes away": (
        ('    "jax",\n', '    "jax",\n    "mine",\n'),
        ('    "jax",\n', ""),
        ["flax", "mine"],
    ),
    "one line of ours": (
        ('[\n    "flax",\n    "jax",\n]', '["flax", "jax", "mine"]'),
        ('    "jax",\n', '    "jax",\n    "tqdm",\n'),
        ["flax", "jax", "mine", "tqdm"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_requirements(name):
    mine, other, expected = CASES[name]
    ours, theirs = BASE.replace(*mine), BASE.replace(*other)
    merged = merge_toml(BASE.encode(), ours.encode(), theirs.encode())
    assert merged.conflicts == []
    values = tomllib.loads(merged.content.decode())
    assert values["project"]["dependencies"] == expected
    assert values["tool"] == {"black": {"line-length": 100}}
    assert ("# of mine" in merged.content.decode()) == ("# of mine" in ours)
    again = merge_toml(theirs.encode(), merged.content, theirs.encode())
    assert again.content == merged.content


def test_neighbouring_keys_keep_comments_and_layout():
    base, ours = "a = 1\nb = 2\n", "# mine\na   =   5  # of mine\nb = 2\nc = [3]\n"
    merged = merge_toml(base.encode(), ours.encode(), b"a = 1\nb = 3\nd = 4\n")
    assert merged.conflicts == []
    assert merged.content == b"# mine\na   =   5  # of mine\nb = 3\nc = [3]\nd = 4\n"


def test_a_key_that_both_add_is_no_two_keys():
    base, ours = "[a]\nx = 1\n\n[b]\ny = 1\n", "[a]\nnew = 1\nx = 1\n\n[b]\ny = 1\n"
    theirs = "[a]\nx = 1\nnew = 1\n\n[b]\ny = 1\n"
    merged = merge_toml(base.encode(), ours.encode(), theirs.encode())
    assert (merged.content.decode(), merged.conflicts) == (ours, [])


@pytest.mark.parametrize("other", ["a = 3\n", ""])
def test_both_change_a_key(other):
    merged = merge_toml(b"a = 1\n", b"a = 2\n", other.encode())
    assert merged.content == b"a = 2\n" and merged.conflicts


@pytest.mark.parametrize("twice", range(3))
def test_of_what_is_there_twice_no_rule_says_which_stays(twice):
    sides = [["a", "b"], ["a", "b", "c"], ["a", "b", "d"]]
    sides[twice].append("a")
    base, ours, theirs = (f"x = {side}\n" for side in sides)
    merged = f"x = {[*sides[1], 'd']}\n"
    assert [*toml_faults(base, ours, theirs, merged)] == ["you both changed one key"]


def test_what_ours_deleted_stays_deleted():
    merged = merge_toml(b"a = 1\nb = 1\nc = 1\n", b"a = 1\nc = 1\n", b"a = 2\nb = 1\nc = 1\n")
    assert (merged.content, merged.conflicts) == (b"a = 2\nc = 1\n", [])


def test_what_is_no_toml_is_lines():
    merged = merge_toml(b"a\nb\nc\n", b"a\nb\nc mine\n", b"a 2\nb\nc\n")
    assert (merged.content, merged.conflicts) == (b"a 2\nb\nc mine\n", [])


def test_a_comment_of_ours_is_not_lost():
    ours, theirs = b'a = ["x", "mine"]  # mine\nb = 1\n', b'a = ["x", "y"]\nb = 1\n'
    merged = merge_toml(b'a = ["x"]\nb = 1\n', ours, theirs)
    assert b"# mine" in merged.content
    assert merged.conflicts or b'"mine", "y"' in merged.content


def test_the_side_that_was_chosen_is_taken():
    base, ours, theirs = b"a = 1\nb = 1\n", b"a = 2\nb = 1\n", b"a = 3\nb = 1\n"
    (conflict,) = merge_toml(base, ours, theirs).conflicts
    chosen = merge_toml(base, ours, theirs, {conflict.symbol})
    assert (chosen.content, chosen.conflicts) == (theirs, [])


NOT_SAID = "merged, it would not say what you and the template changed"
FAULTS = {
    "right": ("a = 2\nb = 2\n", "a = 1\nb = 3\n", "a = 2\nb = 3\n", []),
    "one side's": ("a = 2\nb = 2\n", "a = 1\nb = 3\n", "a = 2\nb = 2\n", [NOT_SAID]),
    "another kind of number": ("a = 1.0\nb = 2\n", "a = 1\nb = 2\n", "a = 1\nb = 2\n", [NOT_SAID]),
    "a number for a truth": ("a = true\nb = 2\n", "a = 1\nb = 2\n", "a = 1\nb = 2\n", [NOT_SAID]),
    "both changed one": (
        "a = 2\nb = 2\n",
        "a = 3\nb = 2\n",
        "a = 2\nb = 2\n",
        ["you both changed one key"],
    ),
    "no toml": ("a = 2\nb = 2\n", "a = 1\nb = 3\n", "a = =\n", ["you both changed one key"]),
    "no comment": (
        "# mine\na = 2\nb = 2\n",
        "a = 1\nb = 3\n",
        "a = 2\nb = 3\n",
        ["merged, it would lack a comment of yours"],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_a_merge_by_keys(name):
    ours, theirs, result, expected = FAULTS[name]
    assert [*toml_faults("a = 1\nb = 2\n", ours, theirs, result)] == expected


def test_bytes_that_are_no_text_are_merged_by_lines():
    base, ours, theirs = (b"a = %d\nb = \xff\n" % n for n in (1, 2, 3))
    merged = merge_toml(base, ours, theirs)
    assert merged.content == ours and [x.symbol for x in merged.conflicts] == ["line 1"]
