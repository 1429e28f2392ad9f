"""A symbol as two files have it: whether it differs, where it stands, what it binds and uses."""

import ast
import re
from collections import Counter

from redco_merge.matching import Overlap
from redco_merge.names import FUNCTIONS, Binding, attribute_uses, defined_attributes
from redco_merge.spots import Spot, both_have_members, pair_spots
from redco_merge.symbols import Symbol, is_definition

Pair = tuple[Spot, Spot]  # a symbol in base, and as the template has it


def key_of(pair: Pair) -> str:
    """Return the path of a symbol, in base where that has it."""
    return pair[0].path or pair[1].path


def paths_of(pair: Pair) -> set[str]:
    """Return its paths in both files."""
    return {x.path for x in pair if x.symbol}


def is_changed(pair: Pair) -> bool:
    """Return whether a symbol differs; of a class that both have, its header or the comments above."""
    old, new = pair
    a, b = old.symbol, new.symbol
    if a and b and a.members and b.members:
        return a.comments != b.comments or not a.members[0].says_as(b.members[0])
    return differ(a, b)


def differ(a: Symbol | None, b: Symbol | None) -> bool:
    """Return whether two symbols say something else, or one file lacks it."""
    return not a.same(b) if a and b else a is not b


def touches(pair: Pair, place: Overlap) -> bool:
    """Return whether a symbol is in a place; of a class that both have, its header and the comments above."""
    header = both_have_members(*pair)
    for spot, (first, end) in zip(pair, (place.base, place.theirs), strict=True):
        if spot.symbol:
            members = spot.symbol.members
            body = members[0].body if header and members else spot.symbol.body
            stop = spot.row + len(spot.symbol.lead) + len(body)
            if spot.row < max(end, first + (first > spot.row)) and first < stop:
                return True
    return False


def binds(spot: Spot, name: str, whole: bool = False) -> bool:
    """Return whether a symbol binds a name. whole: whether it is what has this path, or an import of the name."""
    if not spot.symbol:
        return False
    return spot.path == name if whole and not spot.symbol.imports else name in spot.symbol.names


def uses(spot: Spot, name: str) -> bool:
    """Return whether the text of a symbol has a word."""
    body = spot.symbol.body if spot.symbol else []
    return bool(re.search(rf"\b{name}\b", "".join(body)))


def bindings_at(spot: Spot) -> list[Binding]:
    """Return what a symbol imports."""
    return spot.symbol.imports if spot.symbol else []


def unset_attributes(text: str) -> set[str]:
    """Return the attributes that a file reads and gives to nothing."""
    return attribute_uses(text).keys() - defined_attributes(text)


def count_definitions(lines: list[str]) -> Counter[str]:
    """Return how often each path is a definition without decorators, or a name that is imported from another place."""
    paths: Counter[str] = Counter()
    imported = set()
    for spot, _ in pair_spots(lines, lines):
        if spot.symbol and is_definition(spot.symbol):
            paths[spot.path] += not getattr(spot.symbol.nodes[0], "decorator_list", [])
        imported |= {
            (spot.scope + x.top, x.module, x.top if x.alias == x.name else x.name)
            for x in bindings_at(spot)
        }
    return paths + Counter(name for name, _, _ in imported)


def parameters_of(symbol: Symbol | None) -> str | None:
    """Return the parameters of a function as text; None for anything else."""
    match symbol.nodes if symbol else []:
        case [node] if isinstance(node, FUNCTIONS):
            return f"({ast.unparse(node.args)})"
    return None
