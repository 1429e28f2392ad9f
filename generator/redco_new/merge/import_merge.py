"""The imports of one scope, applied to our statements."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from redco_new.merge.align import Triple, bound_by
from redco_new.merge.body import merge_lead
from redco_new.merge.imports import Changes, can_be_rebuilt, changes, joined, module_of, statement
from redco_new.merge.names import Binding
from redco_new.merge.place import Item
from redco_new.merge.session import Session
from redco_new.merge.symbols import Symbol


@dataclass
class ImportMerge:
    """path: of the scope.  changes: the template's.  taken: names of ours that are no imports."""

    path: str
    changes: Changes
    taken: set[str]
    session: Session
    placed: set[Binding] = field(default_factory=set)

    @classmethod
    def of(cls, path: str, base, ours, theirs, session: Session) -> "ImportMerge":
        sides = [of_symbols(side) for side in (base, ours, theirs)]
        found = changes(*sides, session.kept, session.needed)
        for bound in found.conflicts:
            found_in = [s for s in theirs if any(x.bound == bound for x in s.imports)]
            session.conflict(path + bound, found_in, "you and the template changed this import")
        return cls(path, found, bound_by(s for s in ours if not s.imports), session)

    def merge(self, triple: Triple) -> Item | None:
        """An import of ours with the template's changes; None if nothing of it is left."""
        base, ours, theirs = triple.base, triple.ours, triple.theirs
        extra = self.take(theirs) if theirs else []
        wanted = [x for x in ours.imports if x not in self.changes.dropped]
        if not wanted and not extra:
            return None
        lead = merge_lead(base.lead, ours.lead, theirs.lead) if base and theirs else ours.lead
        if lead is None:
            self.refuse(triple, "you and the template changed its comment")
            lead = ours.lead
        body = self.body(triple, wanted, extra)
        return Item(ours, lead, body, triple.theirs_at, ours)

    def body(self, triple: Triple, wanted: list[Binding], extra: list[Binding]) -> list[str]:
        base, ours, theirs = triple.base, triple.ours, triple.theirs
        result = set(wanted + extra)
        untouched = base is not None and base.print == ours.print
        if untouched and theirs and result == set(theirs.imports):
            return theirs.body if theirs.print != base.print else ours.body
        if result == set(ours.imports):
            if base and theirs and remarks(theirs) not in (remarks(base), remarks(ours)):
                self.refuse(triple, "you and the template changed its comment")
            return ours.body
        if can_be_rebuilt(ours) and (module_of(ours) or not extra):
            names = joined(wanted, theirs.imports, extra) if theirs else wanted
            return statement(names, ours, self.session.width)
        if len(wanted) < len(ours.imports):
            self.refuse(triple, "the template drops a name of this line")
        return ours.body + (statement(extra, ours, self.session.width) if extra else [])

    def new(self, triple: Triple) -> Item | None:
        """An import that only the template has: what of it is to be added."""
        theirs = triple.theirs
        if not (names := self.take(theirs)):
            return None
        lines = theirs.body
        if names != theirs.imports:
            groups = groupby(names, lambda x: x.module)
            each = [statement(list(group), theirs, self.session.width) for _, group in groups]
            lines = [line for one in each for line in one]
        return Item(theirs, theirs.lead, lines, triple.theirs_at)

    def take(self, theirs: Symbol) -> list[Binding]:
        """The names of a statement of the template that are to be added, each once."""
        found = [x for x in theirs.imports if x in self.changes.added and x not in self.placed]
        self.placed.update(found)
        for x in (x for x in found if x.top in self.taken):
            self.session.conflict(self.path + x.bound, [theirs], f"your file has its own `{x.top}`")
        return [x for x in found if x.top not in self.taken]

    def refuse(self, triple: Triple, reason: str) -> None:
        self.session.refuse(self.path + triple.ours.key, triple, reason)


def of_symbols(symbols: Iterable[Symbol]) -> list[Binding]:
    return [x for symbol in symbols for x in symbol.imports]


def remarks(symbol: Symbol) -> list[str]:
    """The comments inside a statement."""
    return [text for _, text in symbol.print[1]]
