"""The three files of a merge and its result, each as a whole: what it binds, lacks and uses."""

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

from redco_merge.names import (
    DEFINITIONS,
    Binding,
    attribute_uses,
    defined_attributes,
    identifiers,
    import_bindings,
    names_at_top,
    unbound_names,
    used_before_defined,
)
from redco_merge.source import Source, plain_text
from redco_merge.renames import find_renames, with_new_names
from redco_merge.style import style_of
from redco_merge.symbols import Symbol, symbols_of
from redco_merge.trees import chunks_of, tree_of


@dataclass(frozen=True)
class Side:
    """One of the three files, or the result.

    lines: each with its own line ending.
    """

    lines: list[str]

    @cached_property
    def text(self) -> str:
        return plain_text(self.lines)

    @cached_property
    def symbols(self) -> list[Symbol]:
        return symbols_of(self.lines)

    @cached_property
    def leaves(self) -> list[tuple[str, Symbol]]:
        """(path of its scope, symbol) of every symbol without members."""
        return list(_leaves("", self.symbols))

    @cached_property
    def unbound(self) -> set[str]:
        """The names that it uses and nothing in it binds."""
        return unbound_names(self.text)

    @cached_property
    def bound(self) -> set[str]:
        """The names that it binds at its top."""
        return names_at_top(self.text)

    @cached_property
    def early(self) -> set[str]:
        """The names that it uses before it defines them."""
        return used_before_defined(self.text)

    @cached_property
    def imports(self) -> set[Binding]:
        return {x for _, symbol in self.leaves for x in symbol.imports}

    @cached_property
    def members(self) -> set[tuple[str, str]]:
        """(path of its class, name) of every member."""
        return {(path, name) for path, s in self.leaves if path for name in s.names}


@dataclass(frozen=True)
class Sides:
    """The three files of a merge, the template's two in the style and the names of the user's.

    base: what the template wrote before.
    ours: the user's file.
    theirs: what the template writes now.
    width: characters of a line in the user's file.
    renames: old name -> new name, of what the user renamed.
    """

    base: Side
    ours: Side
    theirs: Side
    width: int
    renames: dict[str, str]

    def missing(self, result: Side) -> set[str]:
        """Return the names that the result uses and does not bind, and no side did without."""
        return result.unbound - self.ours.unbound - self.theirs.unbound

    def removed_but_used(self, result: Side) -> set[str]:
        """Return the names that the template removes and the user's code still uses."""
        gone = self.missing(result) & self.ours.bound - self.theirs.bound
        ours, theirs = attribute_uses(result.text), attribute_uses(self.theirs.text)
        members = {name for _, name in self.base.members - self.theirs.members}
        return gone | {name for name in members if ours[name] > theirs[name]}

    def deleted_but_used(self, result: Side) -> set[str]:
        """Return the names whose imports the user deleted and the template's code uses."""
        importable = {x.top for x in self.theirs.imports}
        return self.missing(result) & importable - self.ours.bound

    def lacking(self, result: Side) -> dict[str, list[Symbol]]:
        """Return name -> the template's symbols that bind it, of what the result uses and lacks."""
        uses = attribute_uses(result.text).keys() - attribute_uses(self.ours.text).keys()
        attributes = uses - defined_attributes(result.text)
        names = self.missing(result) | attributes & defined_attributes(self.theirs.text)
        return {x: [s for _, s in self.theirs.leaves if x in s.names] for x in sorted(names)}

    def is_changed_by_template(self, key: str) -> bool:
        """Return whether the template changed a symbol of the file."""
        before, now = (
            {s.fingerprint for s in side.symbols if s.key == key}
            for side in (self.base, self.theirs)
        )
        return before != now

    def early(self, result: Side) -> set[str]:
        """Return the names that the result uses before it defines them, and no side did."""
        return result.early - self.ours.early - self.theirs.early

    def rebound_warnings(self) -> list[str]:
        """Return a warning for each import that is another in ours, and that new code uses."""
        names = {x.top for x in self.base.imports & self.theirs.imports - self.ours.imports}
        names &= {x.top for x in self.ours.imports}
        if not names:
            return []
        before = {s.fingerprint for _, s in self.base.leaves}
        new = [s for _, s in self.theirs.leaves if s.fingerprint not in before and not s.imports]
        used = {name for s in new for node in s.nodes for name in identifiers(node)}
        rebound = sorted(names & used)
        return [f"`{x}` is another import in your file; new code uses it too" for x in rebound]

    def renamed_warnings(self, refused: Collection[str]) -> list[str]:
        """Return a warning for each change of what the user renamed. refused: went nowhere."""
        return [
            f"`{old}` is `{new}` in your file: the template's change of it went there"
            for old, new in self.renames.items()
            if self.is_changed_by_template(new) and new not in refused
        ]


def read_sides(base: Source, ours: Source, theirs: Source) -> Sides:
    """Return three files as the sides of a merge. Raises SyntaxError."""
    style = style_of(ours, base)
    before, after = style.apply(base), style.apply(theirs)
    renames = find_renames(before, ours.lines, after)
    return Sides(
        Side(with_new_names(before, renames)),
        Side(ours.lines),
        Side(with_new_names(after, renames)),
        style.width,
        renames,
    )


def warnings_of(base: Source, ours: Source, theirs: Source) -> list[str]:
    """Return what the user should know of a merge that needed no more than lines.

    An import that they bound to something else, and that new code uses; a change of what they
    renamed. Raises SyntaxError.
    """
    before, mine, now = (_names_at_top(source) for source in (base, ours, theirs))
    if before & now <= mine:
        return []
    sides = read_sides(base, ours, theirs)
    return [*sides.rebound_warnings(), *sides.renamed_warnings(frozenset())]


def _names_at_top(source: Source) -> set[Hashable]:
    """Return the imports, and the names of the functions and classes."""
    nodes = [x for chunk in chunks_of(plain_text(source.lines)) for x in tree_of(chunk).body]
    bindings = (binding for node in nodes for binding in import_bindings(node))
    return {*bindings, *(node.name for node in nodes if isinstance(node, DEFINITIONS))}


def without_gap(lines: list[str], ours: Side) -> list[str]:
    """Return the lines of a file without blank ones at its top, where ours has none there."""
    had_one = bool(ours.lines) and not ours.lines[0].strip()
    top = next((i for i, line in enumerate(lines) if line.strip()), 0)
    return lines if had_one else lines[top:]


def _leaves(path: str, symbols: list[Symbol]) -> Iterator[tuple[str, Symbol]]:
    for symbol in symbols:
        if symbol.members:
            yield from _leaves(f"{path}{symbol.key}.", symbol.members)
        else:
            yield path, symbol
