"""Faults put into the engine: the verifier refuses every wrong result that they lead to."""

import ast
from dataclasses import replace

import pytest
from merge.test_cases import CASES, merged_as, parts

from redco_new.merge import WHOLE, body, diff3, engine, import_merge, place, scope, source
from redco_new.merge.imports import Changes
from redco_new.merge.session import Session


def twice(function):
    return lambda *args: [x for x in function(*args) for _ in (0, 1)]


def users_imports_go(base, ours, theirs, kept, needed):
    right = CHANGES(base, ours, theirs, kept, needed)
    return replace(right, dropped=set(ours) - set(theirs))


def not_added(base, ours, theirs, kept, needed):
    return CHANGES(base, ours, theirs, kept, needed) if needed else Changes()


def theirs_on_overlap(region, key):
    return RULE(region, key) or list(region[2])


def both_on_overlap(region, key):
    return RULE(region, key) or [*region[1], *region[2]]


def silent(self, path, triple, reason):
    """A conflict that nobody is told."""


def returned(self, triple, items):
    """Brings back what the user deleted."""
    return place.Item(triple.theirs, triple.theirs.lead, triple.theirs.body, triple.theirs_at)


def overwritten(self, triple, item):
    """The template's symbol, whatever the user did."""
    return replace(item, body=triple.theirs.body)


def without_comments(self):
    return [line for line in self.lead if not line.strip()] + self.body


def unwritten(names, like, width):
    """One name of an import is lost."""
    return STATEMENT(names[:1], like, width)


RULE, STATEMENT = diff3.merge_region, import_merge.statement
CHANGES = import_merge.changes
MUTATIONS = {
    "overlap-takes-theirs": (diff3, "merge_region", theirs_on_overlap),
    "overlap-takes-both": (diff3, "merge_region", both_on_overlap),
    "symbol-overwritten": (scope.Scope, "merged", overwritten),
    "template-ignored": (scope.Scope, "merged", lambda self, triple, item: item),
    "removed-though-edited": (scope.Scope, "removed", lambda self, triple, item: None),
    "nothing-new": (scope.Scope, "new", lambda self, triple, items: None),
    "deleted-comes-back": (scope.Scope, "new", returned),
    "users-imports-lost": (import_merge, "changes", users_imports_go),
    "imports-not-added": (import_merge, "changes", not_added),
    "import-name-lost": (import_merge, "statement", unwritten),
    "conflicts-not-told": (Session, "refuse", silent),
    "owned-ignored": (engine, "Session", lambda owned, width: Session(frozenset(), width)),
    "comments-lost": (place.Item, "lines", property(without_comments)),
    "lines-doubled": (engine, "without_gap", twice(engine.without_gap)),
    "users-lines-lost": (body, "merge_text", lambda base, ours, theirs: theirs),
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
            assert (path.stem, [x.symbol for x in merged.conflicts]) == (path.stem, [WHOLE])
            assert merged.content == crlf(parts(path)["ours"]).encode()
