"""Three-way merge of the symbols of one scope: a file, a class, an `if TYPE_CHECKING`."""

from dataclasses import dataclass, replace

from redco_new.merge.align import Triple, align, of_key, others, scattered, untouched
from redco_new.merge.between import without_doubles
from redco_new.merge.body import merge_body, merge_lead
from redco_new.merge.import_merge import ImportMerge
from redco_new.merge.place import Item, place
from redco_new.merge.session import Session
from redco_new.merge.symbols import END, Symbol, comments_of


@dataclass(frozen=True)
class Scope:
    """path: of the class, with a dot; "" for the file."""

    path: str
    session: Session

    def merge(self, base: list[Symbol], ours: list[Symbol], theirs: list[Symbol]) -> list[Item]:
        """What the scope becomes, in our order; new symbols follow their neighbour in the template."""
        imports = ImportMerge.of(self.path, base, ours, theirs, self.session)
        apart = scattered(base, ours, theirs)
        free = {key for key in apart if untouched(of_key(base, key), of_key(ours, key))}
        triples = align(others(base, apart), others(ours, free), others(theirs, apart - free))
        self.keep_scattered(apart - free, base, ours, theirs)
        items = []
        for triple in triples:
            if triple.ours:
                merged = imports.merge(triple) if triple.ours.imports else self.ours(triple)
                items += [merged] if merged else []
        for triple in triples:
            if triple.theirs and not triple.ours:
                new = imports.new(triple) if triple.theirs.imports else self.new(triple, items)
                if new and not place(new, items):
                    self.refuse(triple, "it would be used before it is defined")
        return without_doubles(items, base, ours, theirs)

    def keep_scattered(self, keys: set[str], *sides: list[Symbol]) -> None:
        """Ours stay; a change of the template is a conflict."""
        for key in sorted(keys):
            base, ours, theirs = (of_key(side, key) for side in sides)
            b, o, t = ([(s.print, s.comments) for s in side] for side in (base, ours, theirs))
            if t not in (b, o):
                self.session.conflict(self.path + key, theirs, "it is defined in several places")

    def ours(self, triple: Triple) -> Item | None:
        """A symbol that our file has; None if the template removes it."""
        base, ours, theirs = triple.base, triple.ours, triple.theirs
        item = Item(ours, ours.lead, ours.body, triple.theirs_at, ours)
        if theirs is None:
            return self.removed(triple, item) if base else item
        if base is None:
            return self.both_new(triple, item)
        if self.path + ours.key in self.session.owned and not ours.same(base):
            if not (theirs.same(base) or theirs.same(ours)):
                self.refuse(triple, "it is yours: the template's new version lies beside it")
            return item
        return self.merged(triple, item)

    def merged(self, triple: Triple, item: Item) -> Item:
        base, ours, theirs = triple.base, triple.ours, triple.theirs
        lead = merge_lead(base.lead, ours.lead, theirs.lead)
        if ours.key == END and comments_of(lead or []) == ours.comments:
            lead = ours.lead
        if ours.members and base.members and theirs.members:
            body = self.inside(triple)
        else:
            body = merge_body(base, ours, theirs)
        if body is None:
            self.refuse(triple, "you and the template changed the same place")
        elif lead is None:
            self.refuse(triple, "you and the template changed the comment above it")
        symbol = theirs if body is theirs.body else ours
        lead, body = (ours.lead if lead is None else lead), (ours.body if body is None else body)
        return Item(symbol, lead, body, triple.theirs_at, ours)

    def inside(self, triple: Triple) -> list[str]:
        """The lines of a class or `if TYPE_CHECKING`, merged member by member."""
        base, ours, theirs = triple.base, triple.ours, triple.theirs
        if base and ours.same_text(base) and not self.session.kept:
            return theirs.body
        scope = Scope(f"{self.path}{ours.key}.", self.session)
        members = scope.merge(base.members if base else [], ours.members, theirs.members)
        return [line for member in members for line in member.lines]

    def both_new(self, triple: Triple, item: Item) -> Item:
        if triple.ours.print == triple.theirs.print:
            return item
        if triple.ours.key == "if TYPE_CHECKING" and triple.ours.members and triple.theirs.members:
            return replace(item, body=self.inside(triple))
        self.refuse(triple, "you and the template both added it")
        return item

    def removed(self, triple: Triple, item: Item) -> Item | None:
        edited = not triple.ours.same(triple.base)
        if not edited and not triple.ours.names & self.session.kept:
            return None
        why = "you edited it" if edited else "your file still uses it"
        self.refuse(triple, f"the template removes it, and {why}")
        return item

    def new(self, triple: Triple, items: list[Item]) -> Item | None:
        """A symbol that only the template has; None if the user deleted it, or has its name."""
        if triple.base:
            if not triple.theirs.same(triple.base):
                self.refuse(triple, "you deleted it, and the template changed it")
            return None
        if taken := taken_names(triple.theirs, items):
            self.refuse(triple, f"your file has its own `{taken[0]}`")
            return None
        return Item(triple.theirs, triple.theirs.lead, triple.theirs.body, triple.theirs_at)

    def refuse(self, triple: Triple, reason: str) -> None:
        path = self.path + triple.some.key
        self.session.refuse(path.removesuffix(".<header>"), triple, reason)


def taken_names(new: Symbol, items: list[Item]) -> list[str]:
    """The names of `new` that the user's own symbols bind."""
    yours = {name for x in items if x.theirs_at is None for name in x.symbol.names}
    return sorted(new.names & yours)
