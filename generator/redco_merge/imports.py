"""The imports of one scope, merged by what they bind, and written as the user writes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from redco_merge.align import module_of, names_bound_by
from redco_merge.body import merge_lead
from redco_merge.names import Binding
from redco_merge.result import Session
from redco_merge.source import indent_of_line, plain_text
from redco_merge.symbols import Symbol, text_for_reader


@dataclass
class ImportChanges:
    """What the template changed in the imports of a scope, as far as it applies to ours.

    additions: to be imported.
    removals: no longer to be imported.
    conflicts: the names that both sides import anew, each in its way.
    """

    additions: list[Binding] = field(default_factory=list)
    removals: set[Binding] = field(default_factory=set)
    conflicts: list[str] = field(default_factory=list)


def import_changes(
    base: Iterable[Binding],
    ours: Iterable[Binding],
    theirs: Iterable[Binding],
    not_removable: frozenset[str],
    needed: frozenset[str],
) -> ImportChanges:
    """Return the template's changes, name by name; what the user deleted or rebound stays so.

    not_removable: names that no removal of the template may touch.
    needed: names to import as the template does, although the user deleted their imports.
    """
    sides = [list(base), list(ours), list(theirs)]
    changes = ImportChanges()
    for alias in dict.fromkeys(x.alias for side in sides for x in side):
        b, o, t = ([x for x in side if x.alias == alias] for side in sides)
        top = alias.partition(".")[0]
        if not o and top in needed:
            changes.additions += t
        elif set(t) in (set(b), set(o)):
            continue
        elif set(o) == set(b):
            changes.additions += [x for x in t if x not in o]
            if t or top not in not_removable:
                changes.removals |= set(o) - set(t)
        elif t:
            changes.conflicts.append(alias)
    return changes


class ImportMerge:
    """The template's changes of the imports of one scope, applied to our statements.

    path: of the scope, with a dot; "" for the file.
    changes: the template's.
    to_add: the additions that no statement has got so far.
    own_names: the names of ours that are no imports.
    """

    def __init__(
        self,
        path: str,
        base: list[Symbol],
        ours: list[Symbol],
        theirs: list[Symbol],
        session: Session,
    ):
        b, o, t = ([x for symbol in side for x in symbol.imports] for side in (base, ours, theirs))
        not_removable, needed = session.removed_but_used, session.deleted_but_used
        self.path, self.session = path, session
        self.changes = import_changes(b, o, t, not_removable, needed)
        self.to_add = set(self.changes.additions)
        self.own_names = names_bound_by(s for s in ours if not s.imports)
        for alias in self.changes.conflicts:
            symbols = [s for s in theirs if any(x.alias == alias for x in s.imports)]
            self._refuse(alias, symbols, "you and the template changed this import")

    def merge_statement(
        self, base: Symbol | None, ours: Symbol, theirs: Symbol | None
    ) -> tuple[list[str], list[str]] | None:
        """Return the lead and body of an import of ours, merged; None if nothing of it is left."""
        extra = self._additions_of(theirs) if theirs else []
        wanted = [x for x in ours.imports if x not in self.changes.removals]
        if not wanted and not extra:
            return None
        lead = merge_lead(base.lead, ours.lead, theirs.lead) if base and theirs else ours.lead
        if lead is None:
            self._refuse(ours.key, [theirs], "you and the template changed its comment")
            lead = ours.lead
        return lead, self._body(base, ours, theirs, wanted, extra)

    def _body(
        self,
        base: Symbol | None,
        ours: Symbol,
        theirs: Symbol | None,
        wanted: list[Binding],
        extra: list[Binding],
    ) -> list[str]:
        """Return the lines of an import of ours that is to bind `wanted` and `extra`."""
        result = set(wanted + extra)
        if base and base.says_as(ours):  # the user left it as it was
            if theirs and result == set(theirs.imports):
                return ours.body if theirs.says_as(base) else theirs.body
        if result == set(ours.imports):
            if base and theirs and _remarks(theirs) not in (_remarks(base), _remarks(ours)):
                self._refuse(ours.key, [theirs], "you and the template changed its comment")
            return ours.body
        if _can_be_rebuilt(ours) and (module_of(ours) or not extra):
            names = _join(wanted, theirs.imports, extra) if theirs else wanted
            return import_statement(names, ours, self.session.width)
        if len(wanted) < len(ours.imports):
            self._refuse(ours.key, [theirs], "the template drops a name of this line")
        return ours.body + (import_statement(extra, ours, self.session.width) if extra else [])

    def added_lines(self, theirs: Symbol) -> list[str] | None:
        """Return what is to be added of an import that only the template has; None for nothing."""
        if not (names := self._additions_of(theirs)):
            return None
        if names == theirs.imports:
            return theirs.body
        groups = groupby(names, lambda x: x.module)
        width = self.session.width
        return [line for _, group in groups for line in import_statement([*group], theirs, width)]

    def _additions_of(self, theirs: Symbol) -> list[Binding]:
        """Return what is to be added of a statement of the template; no later one adds it again."""
        additions = [x for x in theirs.imports if x in self.to_add]
        self.to_add.difference_update(additions)
        for x in additions:
            if x.top in self.own_names:
                self._refuse(x.alias, [theirs], f"your file has its own `{x.top}`")
        return [x for x in additions if x.top not in self.own_names]

    def _refuse(self, key: str, theirs: Iterable[Symbol | None], reason: str) -> None:
        """Record that the template's change of an import is not in the file."""
        text = text_for_reader(symbol for symbol in theirs if symbol)
        self.session.add_conflict(self.path + key, text, reason)


def _join(ours: list[Binding], theirs: list[Binding], additions: list[Binding]) -> list[Binding]:
    """Return our names and the new: sorted if ours are, else each after its neighbour in theirs."""
    names = list(ours)
    for x in additions:
        before = [y for y in theirs[: theirs.index(x)] if y in names]
        names.insert(names.index(before[-1]) + 1 if before else 0, x)
    in_order = sorted(ours, key=_order) == ours
    return sorted(names, key=_order) if in_order else names


def _order(binding: Binding) -> tuple[str, str]:
    return binding.name.casefold(), binding.alias


def import_statement(wanted: list[Binding], like: Symbol, width: int) -> list[str]:
    """Return the lines of an import of `wanted`, in the indent and with the line ending of `like`.

    It takes several lines if `like` does, or if one would be longer than `width`.
    """
    indent = indent_of_line(like.body[0])
    newline = "\r\n" if like.body[0].endswith("\r\n") else "\n"
    names = [_as_written(x) for x in wanted]
    if not wanted[0].module:
        return [f"{indent}import {name}{newline}" for name in names]
    start = f"{indent}from {wanted[0].module} import "
    if len(like.body) == 1 and len(line := start + ", ".join(names)) <= width:
        return [line + newline]
    step = "\t" if "\t" in indent else "    "
    return [
        f"{start}({newline}",
        *(f"{indent}{step}{name},{newline}" for name in names),
        f"{indent}){newline}",
    ]


def _as_written(binding: Binding) -> str:
    if binding.name in ("*", binding.alias):
        return binding.name
    return f"{binding.name} as {binding.alias}"


def _can_be_rebuilt(symbol: Symbol) -> bool:
    """Return whether writing the statement anew loses nothing: no comment, no second statement."""
    return len(symbol.nodes) == 1 and "#" not in plain_text(symbol.body)


def _remarks(symbol: Symbol) -> list[str]:
    """Return the comments inside a statement."""
    return [text for _, text in symbol.fingerprint.comments]
