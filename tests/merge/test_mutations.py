"""Faults put into the engine: the verifier refuses every wrong result that they lead to."""

import ast
from dataclasses import replace

import pytest
from merge.test_cases import CASES, merged_as, parts

from redco_merge import body, imports, lines, scope, source, three_way
from redco_merge.imports import ImportChanges
from redco_merge.result import Session


def twice(function):
    return lambda *args: [x for x in function(*args) for _ in (0, 1)]


def users_imports_go(base, ours, theirs, not_removable, needed):
    right = CHANGES(base, ours, theirs, not_removable, needed)
    return replace(right, removals=set(ours) - set(theirs))


def not_added(base, ours, theirs, not_removable, needed):
    return CHANGES(base, ours, theirs, not_removable, needed) if needed else ImportChanges()


def theirs_on_overlap(region, key):
    return RULE(region, key) or list(region[2])


def both_on_overlap(region, key):
    return RULE(region, key) or [*region[1], *region[2]]


def silent(self, path, theirs, reason):
    """A conflict that nobody is told."""


def returned(self, base, theirs, items):
    """Brings back what the user deleted."""
    return theirs.body


def overwritten(self, base, ours, theirs, item):
    """The template's symbol, whatever the user did."""
    return replace(item, body=theirs.body)


def without_comments(self):
    return [line for line in self.lead if not line.strip()] + self.body


def unwritten(names, like, width):
    """One name of an import is lost."""
    return STATEMENT(names[:1], like, width)


RULE, STATEMENT = lines.merge_region, imports.import_statement
CHANGES = imports.import_changes
MUTATIONS = {
    "overlap-takes-theirs": (lines, "merge_region", theirs_on_overlap),
    "overlap-takes-both": (lines, "merge_region", both_on_overlap),
    "symbol-overwritten": (scope.Scope, "merge_changes", overwritten),
    "template-ignored": (scope.Scope, "merge_changes", lambda self, base, ours, theirs, item: item),
    "removed-though-edited": (scope.Scope, "remove_symbol", lambda self, base, ours, item: None),
    "nothing-new": (scope.Scope, "new_body", lambda self, base, theirs, items: None),
    "deleted-comes-back": (scope.Scope, "new_body", returned),
    "users-imports-lost": (imports, "import_changes", users_imports_go),
    "imports-not-added": (imports, "import_changes", not_added),
    "import-name-lost": (imports, "import_statement", unwritten),
    "conflicts-not-told": (Session, "add_conflict", silent),
    "owned-ignored": (three_way, "Session", lambda owned, width: Session(frozenset(), width)),
    "comments-lost": (scope.Item, "lines", property(without_comments)),
    "lines-doubled": (three_way, "without_gap", twice(three_way.without_gap)),
    "users-lines-lost": (body, "merge_code_lines", lambda base, ours, theirs: theirs),
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
