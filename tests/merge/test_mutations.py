"""Faults put into the engine: the verifier refuses every wrong result that they lead to."""

import ast

import pytest
from merge.test_cases import CASES, merged_as, parts

from redco_merge import by_statements, conflicts, import_block, places, source, spots


def twice(function):
    return lambda *args: [x for x in function(*args) for _ in (0, 1)]


def first_name(base, ours, theirs):
    """Names of an import are lost."""
    return NAMES(base, ours, theirs)[:1]


def not_put(self, other, whole=True):
    """What is in conflict is told, and merged too."""
    return self.lines


def theirs_on_clash(base, ours, theirs):
    try:
        return PLACE(base, ours, theirs)
    except places.Clash:
        return list(theirs)


def ours_on_clash(base, ours, theirs):
    try:
        return PLACE(base, ours, theirs)
    except places.Clash:
        return list(ours)


PLACE = by_statements.merge_place
NAMES = import_block._merge_names
MUTATIONS = {
    "import-name-lost": (import_block, "_merge_names", first_name),
    "clash-takes-theirs": (by_statements, "merge_place", theirs_on_clash),
    "clash-takes-ours": (by_statements, "merge_place", ours_on_clash),
    "conflicts-not-told": (conflicts.Merge, "_add", lambda *_: None),
    "conflicts-not-taken-back": (spots.Spot, "like", not_put),
    "lines-doubled": (conflicts, "without_gap", twice(conflicts.without_gap)),
    "line-endings-mixed": (source.Source, "newline", "\n"),
}


# What is there in another order, or imported in other statements, is all there: the check says nothing of it.
IN_ORDER = {"from_import_split_by_user", "reordered_and_edited_by_user", "reordered_by_user"}


def outcomes(layout) -> dict:
    return {path.stem: merged_as(parts(path), layout) for path in CASES}


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


@pytest.fixture(scope="module")
def right() -> dict:
    return outcomes(crlf)


def says(merged) -> tuple:
    """A result without its layout: what the verifier answers for."""
    return ast.dump(ast.parse(merged.content)), merged.conflicts


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation(name, right, monkeypatch):
    target, attribute, fault = MUTATIONS[name]
    monkeypatch.setattr(target, attribute, fault)
    wrong = {x: m for x, m in outcomes(crlf).items() if m != right[x] and says(m) != says(right[x])}
    assert wrong
    for path in CASES:
        if (merged := wrong.get(path.stem)) and path.stem not in IN_ORDER:
            assert merged.conflicts, path.stem
            assert merged.content == crlf(parts(path)["ours"]).encode()
