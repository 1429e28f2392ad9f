"""What a merged file needs as a whole: names that one side removed and the other side uses."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from redco_new.merge.names import Binding, bound
from redco_new.merge.source import plain
from redco_new.merge.symbols import Symbol, symbols_of
from redco_new.merge.uses import attributes, defined_attributes, early, identifiers, unbound


@dataclass(frozen=True)
class Side:
    """One of the three files, or the result, and what can be said of it as a whole."""

    lines: list[str]

    @cached_property
    def text(self) -> str:
        return plain(self.lines)

    @cached_property
    def symbols(self) -> list[Symbol]:
        return symbols_of(self.lines)

    @cached_property
    def leaves(self) -> list[tuple[str, Symbol]]:
        """(path of its scope, symbol) of every symbol without members."""
        return list(leaves("", self.symbols))

    @cached_property
    def unbound(self) -> set[str]:
        return unbound(self.text)

    @cached_property
    def bound(self) -> set[str]:
        return bound(ast.parse(self.text).body)

    @cached_property
    def imports(self) -> set[Binding]:
        return {x for _, symbol in self.leaves for x in symbol.imports}

    @cached_property
    def members(self) -> set[tuple[str, str]]:
        return {(path, name) for path, s in self.leaves if path for name in s.names}


@dataclass(frozen=True)
class Sides:
    base: Side
    ours: Side
    theirs: Side

    def missing(self, result: Side) -> set[str]:
        """The names that the result uses and does not bind, and no side did without."""
        return result.unbound - self.ours.unbound - self.theirs.unbound

    def kept(self, result: Side) -> set[str]:
        """The names that the template removes and the user's code still uses."""
        gone = self.missing(result) & self.ours.bound - self.theirs.bound
        ours, theirs = attributes(result.text), attributes(self.theirs.text)
        members = {name for _, name in self.base.members - self.theirs.members}
        return gone | {name for name in members if ours[name] > theirs[name]}

    def needed(self, result: Side) -> set[str]:
        """The names whose imports the user deleted and the template's code uses."""
        imported = {x.top for x in self.theirs.imports}
        return self.missing(result) & imported - self.ours.bound

    def lost(self, result: Side) -> dict[str, list[Symbol]]:
        """What the result uses and lacks for good: a name, and where the template binds it."""
        names = self.missing(result)
        used = attributes(result.text).keys() - attributes(self.ours.text).keys()
        lacking = used - defined_attributes(result.text)
        names = names | lacking & defined_attributes(self.theirs.text)
        return {x: [s for _, s in self.theirs.leaves if x in s.names] for x in sorted(names)}

    def changed(self, key: str) -> bool:
        """Whether the template changed a symbol of the file."""
        prints = ({s.print for s in x.symbols if s.key == key} for x in (self.base, self.theirs))
        return len(set(map(frozenset, prints))) > 1

    def early(self, result: Side) -> set[str]:
        """The names that the result uses before it defines them, and no side did."""
        return early(result.text) - early(self.ours.text) - early(self.theirs.text)

    def rebound(self) -> list[str]:
        """The imports that the user bound to something else and the template's new code uses."""
        before = {s.print for _, s in self.base.leaves}
        new = [s for _, s in self.theirs.leaves if s.print not in before and not s.imports]
        used = {name for s in new for node in s.nodes for name in identifiers(node)}
        names = {x.top for x in self.base.imports & self.theirs.imports - self.ours.imports}
        return sorted(names & used & {x.top for x in self.ours.imports})


def leaves(path: str, symbols: list[Symbol]) -> Iterator[tuple[str, Symbol]]:
    for symbol in symbols:
        if symbol.members:
            yield from leaves(f"{path}{symbol.key}.", symbol.members)
        else:
            yield path, symbol
