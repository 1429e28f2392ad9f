"""Imports, merged by what they bind."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from redco_new.merge.names import Binding
from redco_new.merge.source import plain
from redco_new.merge.symbols import Symbol


@dataclass
class Changes:
    """What the template changed in the imports of a scope, as far as it applies to ours."""

    added: list[Binding] = field(default_factory=list)
    dropped: set[Binding] = field(default_factory=set)
    conflicts: list[str] = field(default_factory=list)  # bound names


def changes(
    base: Iterable[Binding],
    ours: Iterable[Binding],
    theirs: Iterable[Binding],
    kept: set[str],
    needed: set[str],
) -> Changes:
    """The template's changes, name by name; a name that the user deleted or rebound stays so.

    kept: names that no removal of the template may touch.  needed: names to take from the template
    although the user deleted their imports.
    """
    sides = [list(base), list(ours), list(theirs)]
    found = Changes()
    for bound in dict.fromkeys(x.bound for side in sides for x in side):
        b, o, t = ([x for x in side if x.bound == bound] for side in sides)
        if not o and bound.partition(".")[0] in needed:
            found.added += t
        elif set(t) in (set(b), set(o)):
            continue
        elif set(o) == set(b):
            found.added += [x for x in t if x not in o]
            if t or bound.partition(".")[0] not in kept:
                found.dropped |= set(o) - set(t)
        elif t:
            found.conflicts.append(bound)
    return found


def pair_imports(these: dict[int, Symbol], those: dict[int, Symbol]) -> dict[int, int]:
    """Which import of `those` stands for one of `these`: binds the same, or is from the same module."""
    pairs: dict[int, int] = {}
    for same in (lambda s: frozenset(s.imports), module_of):
        free = {j: same(s) for j, s in those.items() if j not in pairs.values()}
        for i, symbol in these.items():
            if i in pairs or (key := same(symbol)) is None:
                continue
            match = next((j for j, other in free.items() if other == key), None)
            if match is not None:
                pairs[i] = match
                del free[match]
    return pairs


def module_of(symbol: Symbol) -> str | None:
    """The module of a single `from` statement."""
    one = len(symbol.nodes) == 1 and isinstance(symbol.nodes[0], ast.ImportFrom)
    return symbol.imports[0].module if one else None


def joined(ours: list[Binding], theirs: list[Binding], added: list[Binding]) -> list[Binding]:
    """The names of our statement and those added: sorted if ours are, else after their neighbour."""
    found = list(ours)
    for x in added:
        before = [y for y in theirs[: theirs.index(x)] if y in found]
        found.insert(found.index(before[-1]) + 1 if before else 0, x)
    in_order = sorted(ours, key=_order) == ours
    return sorted(found, key=_order) if in_order else found


def _order(binding: Binding) -> tuple[str, str]:
    return binding.name.casefold(), binding.bound


def statement(wanted: list[Binding], like: Symbol, width: int) -> list[str]:
    """An import of `wanted`, indented as `like`; over several lines if it is, or if longer than `width`."""
    indent = like.body[0][: len(like.body[0]) - len(like.body[0].lstrip())]
    newline = "\r\n" if like.body[0].endswith("\r\n") else "\n"
    names = [name_of(x) for x in wanted]
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


def name_of(binding: Binding) -> str:
    if binding.name in ("*", binding.bound):
        return binding.name
    return f"{binding.name} as {binding.bound}"


def is_future(symbol: Symbol) -> bool:
    return any(x.module == "__future__" for x in symbol.imports)


def can_be_rebuilt(symbol: Symbol) -> bool:
    """Whether writing the statement anew loses nothing: no comment, no second statement."""
    return len(symbol.nodes) == 1 and "#" not in plain(symbol.body)
