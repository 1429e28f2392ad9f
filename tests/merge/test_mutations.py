"""Faults put into the engine: the verifier refuses every wrong result that they lead to."""

import ast

import pytest
from merge.test_cases import CASES, merged_as, parts

from redco_merge import conflicts, import_block, source, spots


def twice(function):
    return lambda *args: [x for x in function(*args) for _ in (0, 1)]


def first_name(base, ours, theirs):
    """Names of an import are lost."""
    return NAMES(base, ours, theirs)[:1]


def not_put(self, other, whole=True):
    """What is in conflict is told, and merged too."""
    return self.lines


NAMES = import_block._merge_names
MUTATIONS = {
    "import-name-lost": (import_block, "_merge_names", first_name),
    "conflicts-not-told": (conflicts.Merge, "_add", lambda *_: None),
    "conflicts-not-taken-back": (spots.Spot, "like", not_put),
    "lines-doubled": (conflicts, "without_gap", twice(conflicts.without_gap)),
    "line-endings-mixed": (source.Source, "newline", "\n"),
}


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
        if merged := wrong.get(path.stem):
            assert merged.conflicts, path.stem
            assert merged.content == crlf(parts(path)["ours"]).encode()
