"""Files that are not Python, merged line by line."""

import random
import re
import subprocess

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from redco_merge import WHOLE, Conflict, MergeResult, documents, merge_text
from redco_merge.matching import changes

BASE = b"[model]\nname = 'gpt-j'\nshards = 4\n\n[train]\nsteps = 10\n"
OURS = BASE.replace(b"steps = 10", b"steps = 99")
THEIRS = BASE.replace(b"'gpt-j'", b"'llama'")
BOTH = OURS.replace(b"'gpt-j'", b"'llama'")


@pytest.mark.parametrize(
    "layout",
    [
        lambda data: data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data[:-1],
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data + b"caf\xe9\n",
    ],
    ids=["plain", "crlf", "no-end", "bom", "not-utf-8"],
)
def test_both_changed(layout):
    assert merge_text(BASE, layout(OURS), THEIRS) == MergeResult(layout(BOTH))


def test_neighbouring_lines_are_a_conflict_as_they_are_to_git():
    ours = BASE.replace(b"shards = 4", b"shards = 8  # mine")
    merged = merge_text(BASE, ours, THEIRS)
    assert merged.content == ours
    assert [(x.symbol, x.theirs) for x in merged.conflicts] == [
        ("line 2", "name = 'llama'\nshards = 4\n")
    ]


def gits(folder, pairs):
    """What `git diff` says of pairs of texts: (lines of the first, of the second) of each change."""
    for name, texts in zip("ab", zip(*pairs, strict=True), strict=True):
        (folder / name).mkdir()
        for n, text in enumerate(texts):
            (folder / name / f"{n:04}").write_text("".join(f"{line}\n" for line in text))
    command = "git diff --no-index --no-indent-heuristic --unified=0 --no-color a b".split()
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    told = [[] for _ in pairs]
    for line in said.splitlines():
        if line.startswith("+++ "):
            n = int(line[-4:])
        if place := re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            at, size, new, length = (int(x or 1) for x in place.groups())
            at, new = at - (size > 0), new - (length > 0)  # of nothing: the line above it
            told[n].append((at, at + size, new, new + length))
    return told


def test_one_edit_lies_where_git_lays_it(tmp_path):
    """Of several places, in texts of few different lines; of several edits it may be another of as many lines."""
    rng, pairs = random.Random(0), []
    for _ in range(400):
        letters = rng.choice(["ab", "abc", "abcdefgh"])
        text = "".join(rng.choices(letters, k=rng.randrange(14)))
        start = rng.randrange(len(text) + 1)
        put = "".join(rng.choices(letters, k=rng.randrange(4)))
        pairs.append((text, text[:start] + put + text[start + rng.randrange(3) :]))
    assert [changes(*pair) for pair in pairs] == gits(tmp_path, pairs)


def test_overlap_keeps_ours_and_merges_the_rest():
    theirs = THEIRS.replace(b"steps = 10", b"steps = 11")
    reason = "you and the template changed it"
    merged = merge_text(BASE, OURS, theirs)
    assert merged == MergeResult(BOTH, [Conflict("line 6", "steps = 11\n", reason)])


def test_same_change():
    assert merge_text(BASE, THEIRS, THEIRS + b"more = 1\n") == MergeResult(THEIRS + b"more = 1\n")


def test_one_side():
    assert merge_text(BASE, OURS, BASE) == MergeResult(OURS)
    assert merge_text(BASE, BASE, THEIRS) == MergeResult(THEIRS)


def test_binary_is_kept():
    merged = merge_text(b"a\0", b"b\0", b"c\0")
    assert merged.content == b"b\0"
    assert [conflict.symbol for conflict in merged.conflicts] == [WHOLE]


@pytest.mark.parametrize(
    "wrong",
    [OURS, THEIRS, BASE, BOTH + b"more\n", BOTH.replace(b"[train]\n", b""), BOTH * 2, b""],
)
def test_wrong_results_are_refused(wrong, monkeypatch):
    monkeypatch.setattr(documents, "merge_lines", lambda *_: (OURS, MergeResult(wrong)))
    merged = merge_text(BASE, OURS, THEIRS)
    assert merged.content == OURS
    assert [conflict.symbol for conflict in merged.conflicts] == [WHOLE]


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"d", b"\n"]), max_size=6).map(b"".join)


@settings(deadline=None, derandomize=True, database=None)
@given(LINES, LINES, LINES)
def test_nothing_is_lost(base, ours, theirs):
    merged = merge_text(base, ours, theirs)
    added = set(ours.split()) - set(base.split())
    assert added <= set(merged.content.split())
    shown = merged.content + b"\n" + "".join(x.theirs for x in merged.conflicts).encode()
    assert set(theirs.split()) - set(base.split()) <= set(shown.split())
    assert merge_text(theirs, merged.content, theirs) == MergeResult(merged.content)


@settings(deadline=None, derandomize=True, database=None)
@given(LINES, LINES, LINES)
def test_taken_lines(base, ours, theirs):
    names = [conflict.symbol for conflict in merge_text(base, ours, theirs).conflicts]
    merged = merge_text(base, ours, theirs, prefer_theirs=names)
    left = [conflict.symbol for conflict in merged.conflicts]
    shown = merged.content + b"\n" + "".join(x.theirs for x in merged.conflicts).encode()
    assert set(left) <= set(names)
    assert set(theirs.split()) - set(base.split()) <= set(shown.split())
    assert set(merged.content.split()) <= set((ours + b" " + theirs).split())
    if not left:
        assert merge_text(base, merged.content, theirs).content == merged.content
