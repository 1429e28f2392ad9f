"""Three-way merge of the symbols of one scope: a file, a class, an `if TYPE_CHECKING`."""

import ast
from collections import Counter
from dataclasses import dataclass, replace

from redco_merge.align import (
    Item,
    Triple,
    align_sides,
    all_same,
    insert_symbol,
    scattered_keys,
    with_key,
    without_keys,
)
from redco_merge.body import merge_body, merge_lead
from redco_merge.imports import ImportMerge
from redco_merge.limit import check_time
from redco_merge.names import FUNCTIONS
from redco_merge.result import Session
from redco_merge.source import comment_text
from redco_merge.symbols import (
    END,
    HEADER,
    TYPE_CHECKING,
    Symbol,
    comments_of,
    text_for_reader,
)


@dataclass(frozen=True)
class Scope:
    """A scope that is being merged.

    path: of the class, with a dot; "" for the file.
    session: the merge of the whole file.
    """

    path: str
    session: Session

    def merge(self, base: list[Symbol], ours: list[Symbol], theirs: list[Symbol]) -> list[Item]:
        """Merge the scope, in our order; new symbols follow their neighbour in the template."""
        imports = ImportMerge(self.path, base, ours, theirs, self.session)
        scattered = scattered_keys(base, ours, theirs)
        free = {key for key in scattered if all_same(with_key(base, key), with_key(ours, key))}
        self._keep_scattered(scattered - free, base, ours, theirs)
        triples = align_sides(
            without_keys(base, scattered),
            without_keys(ours, free),
            without_keys(theirs, scattered - free),
        )
        items: list[Item] = []
        for triple in triples:
            if triple.ours:
                items += self._merge_ours(triple, triple.ours, imports)
        for triple in triples:
            if triple.theirs and triple.theirs_at is not None and not triple.ours:
                self._add(triple.base, triple.theirs, triple.theirs_at, imports, items)
        return _without_doubles(items, *(_all_comments(side) for side in (base, ours, theirs)))

    def _merge_ours(self, triple: Triple, ours: Symbol, imports: ImportMerge) -> list[Item]:
        """Merge a symbol that our file has; nothing if the template removes it."""
        item = Item(ours, ours.lead, ours.body, triple.theirs_at, ours)
        if not ours.imports:
            merged = self._merge_symbol(triple.base, ours, triple.theirs, item)
            return [merged] if merged else []
        lines = imports.merge_statement(triple.base, ours, triple.theirs)
        return [replace(item, lead=lines[0], body=lines[1])] if lines else []

    def _add(
        self,
        base: Symbol | None,
        theirs: Symbol,
        theirs_at: int,
        imports: ImportMerge,
        items: list[Item],
    ) -> None:
        """Insert into `items` what is to be added of a symbol that only the template has."""
        if theirs.imports:
            body = imports.added_lines(theirs)
        else:
            body = self.new_body(base, theirs, items)
        if body is not None and insert_symbol(theirs, body, theirs_at, items) is None:
            self._refuse(theirs.key, base, theirs, "it would be used before it is defined")

    def _keep_scattered(
        self, keys: set[str], base: list[Symbol], ours: list[Symbol], theirs: list[Symbol]
    ) -> None:
        """Keep ours of names that have several places; a change of the template is a conflict."""
        for key in sorted(keys):
            sides = [with_key(side, key) for side in (base, ours, theirs)]
            b, o, t = ([(s.fingerprint, s.comments) for s in side] for side in sides)
            if t not in (b, o):
                text, reason = text_for_reader(sides[2]), "it is defined in several places"
                self.session.add_conflict(self.path + key, text, reason)

    def _merge_symbol(
        self, base: Symbol | None, ours: Symbol, theirs: Symbol | None, item: Item
    ) -> Item | None:
        """Merge a symbol that is no import; None if the template removes it.

        item: ours as it is.
        """
        check_time()
        if theirs is None:
            return self.remove_symbol(base, ours, item) if base else item
        if base is None:
            return self._merge_additions(ours, theirs, item)
        if self.path + ours.key in self.session.owned and not ours.same(base):
            if not (theirs.same(base) or theirs.same(ours)):
                reason = "it is yours: the template's new version lies beside it"
                self._refuse(ours.key, base, theirs, reason)
            return item
        return self.merge_changes(base, ours, theirs, item)

    def merge_changes(self, base: Symbol, ours: Symbol, theirs: Symbol, item: Item) -> Item:
        """Merge a symbol that all three sides have."""
        lead = merge_lead(base.lead, ours.lead, theirs.lead)
        if ours.key == END and comments_of(lead or []) == ours.comments:
            lead = ours.lead
        if ours.members and base.members and theirs.members:
            body: list[str] | None = self._merge_members(base, ours, theirs)
        else:
            body = merge_body(base, ours, theirs)
        if body is None:
            self._refuse(ours.key, base, theirs, "you and the template changed the same place")
        elif lead is None:
            self._refuse(
                ours.key, base, theirs, "you and the template changed the comment above it"
            )
        symbol = theirs if body is theirs.body else ours
        lead, body = (ours.lead if lead is None else lead), (ours.body if body is None else body)
        return replace(item, symbol=symbol, lead=lead, body=body)

    def _merge_members(self, base: Symbol | None, ours: Symbol, theirs: Symbol) -> list[str]:
        """Return the lines of a class or `if TYPE_CHECKING`, merged member by member."""
        if base and ours.same_text(base) and not self.session.removed_but_used:
            return theirs.body
        scope = Scope(f"{self.path}{ours.key}.", self.session)
        before = base.members or [] if base else []
        items = scope.merge(before, ours.members or [], theirs.members or [])
        return [line for item in items for line in item.lines]

    def _merge_additions(self, ours: Symbol, theirs: Symbol, item: Item) -> Item:
        """Merge a symbol that both sides added."""
        if ours.says_as(theirs):
            return item
        if ours.key == TYPE_CHECKING and ours.members and theirs.members:
            return replace(item, body=self._merge_members(None, ours, theirs))
        self._refuse(ours.key, None, theirs, "you and the template both added it")
        return item

    def remove_symbol(self, base: Symbol, ours: Symbol, item: Item) -> Item | None:
        """Return None for a symbol that the template removes, or `item` where it has to stay."""
        edited = not ours.same(base)
        if not edited and not ours.names & self.session.removed_but_used:
            return None
        why = "you edited it" if edited else "your file still uses it"
        self._refuse(ours.key, base, None, f"the template removes it, and {why}")
        return item

    def new_body(self, base: Symbol | None, theirs: Symbol, items: list[Item]) -> list[str] | None:
        """Return the lines of a symbol that only the template has.

        None if the user deleted it, or has another symbol of its name.
        """
        if base:
            if not theirs.same(base):
                reason = "you deleted it, and the template changed it"
                self._refuse(theirs.key, base, theirs, reason)
            return None
        own_names = {name for x in items if x.theirs_at is None for name in x.symbol.names}
        if clashes := sorted(theirs.names & own_names):
            self._refuse(theirs.key, base, theirs, f"your file has its own `{clashes[0]}`")
            return None
        return theirs.body

    def _refuse(self, key: str, base: Symbol | None, theirs: Symbol | None, reason: str) -> None:
        """Record that our side of a symbol stays, and that the template's callers may not fit."""
        path = (self.path + key).removesuffix(f".{HEADER}")
        self.session.add_conflict(path, text_for_reader([theirs] if theirs else []), reason)
        new = _parameters(theirs)
        if base and new is not None and new != _parameters(base):
            warning = f"`{path}` has other parameters in the template: {new}"
            self.session.warnings.append(warning)


def _parameters(symbol: Symbol | None) -> str | None:
    """Return the parameters of a function as text; None for anything else."""
    match symbol.nodes if symbol else []:
        case [node] if isinstance(node, FUNCTIONS):
            return f"({ast.unparse(node.args)})"
    return None


def _all_comments(symbols: list[Symbol]) -> Counter[str]:
    """Return the comments above symbols, with how often each is there."""
    return Counter(comment for symbol in symbols for comment in symbol.comments)


def _without_doubles(
    items: list[Item], base: Counter[str], ours: Counter[str], theirs: Counter[str]
) -> list[Item]:
    """Return `items` without comments that the template only moved and our file has elsewhere.

    base: the comments of that side.
    ours: the same of the user's.
    theirs: the same of the template's.
    """
    comments = Counter(x for item in items for x in comments_of(item.lead))
    excess = comments - (ours + (theirs - base))
    return [_without_comments(item, excess) for item in items] if excess else items


def _without_comments(item: Item, excess: Counter[str]) -> Item:
    """Return `item` without those of `excess` that our file has not above it; count them off."""
    new = Counter(comments_of(item.lead)) - Counter(item.ours.comments if item.ours else ())
    lead = []
    for line in item.lead:
        text = comment_text(line)
        if line.strip() and min(excess[text], new[text]) > 0:
            excess[text] -= 1
            new[text] -= 1
        else:
            lead.append(line)
    if item.ours and lead != item.lead and comments_of(lead) == item.ours.comments:
        lead = item.ours.lead
    return replace(item, lead=lead)
