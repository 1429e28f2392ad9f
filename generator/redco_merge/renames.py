"""What the user renamed, and the template's text with these names."""

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from redco_merge.limit import check_time
from redco_merge.names import DEFINITIONS
from redco_merge.source import plain_text, tokens_of
from redco_merge.symbols import Symbol, symbols_of
from redco_merge.trees import chunks_of, nodes_of

# The share of words that two definitions have in common, for one to be the other renamed. Chosen,
# not measured: lower takes an unrelated function for it, higher misses one that was edited too.
_ALIKE = 0.6
_MOST_WORDS = 3000  # of a definition that may be one renamed: to compare takes the square of that
# Definitions that are gone times those that are new: a file that has more of them was not renamed, but written anew.
_MOST_PAIRS = 100_000


def find_renames(base: list[str], ours: list[str], theirs: list[str]) -> dict[str, str]:
    """Return old name -> new name of functions and classes that the user renamed everywhere."""
    gone, new = _definitions(base), _definitions(ours)
    shared = gone.keys() & new.keys()
    gone = {name: s for name, s in gone.items() if name not in shared}
    new = {name: s for name, s in new.items() if name not in shared}
    if not 0 < len(gone) * len(new) <= _MOST_PAIRS:
        return {}
    used = {x.string for x in _tokens(ours) if x.type == tokenize.NAME}
    foreign = {x.string for side in (base, theirs) for x in _tokens(side)}  # of the template
    of_template = [_meanings(side) for side in (base, theirs)]
    candidates = [_read_definition(name, s) for name, s in new.items() if name not in foreign]
    renames: dict[str, str] = {}
    for name, symbol in gone.items():
        if name not in used and all(meanings[name] <= 1 for meanings in of_template):
            best = _most_alike(_read_definition(name, symbol), candidates)
            if best and best not in renames.values():
                renames[name] = best
    return renames


def _tokens(lines: list[str]) -> Iterator[tokenize.TokenInfo]:
    return (token for chunk in chunks_of(plain_text(lines)) for token in tokens_of(chunk))


def _definitions(lines: list[str]) -> dict[str, Symbol]:
    """Return the functions and classes of a file, by name."""
    return {
        s.key: s
        for s in symbols_of(lines)
        if len(s.nodes) == 1 and isinstance(s.nodes[0], DEFINITIONS)
    }


class _Definition(NamedTuple):
    """A function or a class.

    name: its own.
    kind: of its node.
    words: of its text.
    bag: each word, behind how often it is above.
    """

    name: str
    kind: type
    words: list[str]
    bag: set[str]


def _read_definition(name: str, symbol: Symbol) -> _Definition:
    words = plain_text(symbol.body).split()
    above: Counter[str] = Counter()
    bag = set()
    for word in words:
        bag.add(f"{above[word]} {word}")
        above[word] += 1
    return _Definition(name, type(symbol.nodes[0]), words, bag)


def _most_alike(old: _Definition, candidates: list[_Definition]) -> str | None:
    """Return the name of the first that has most of `old`, renamed, in it; None if no one has enough."""
    check_time()
    bounds = sorted(((_most_likeness(old, x), -i) for i, x in enumerate(candidates)), reverse=True)
    best = _ALIKE, -len(candidates)
    for bound, i in bounds:
        if bound < best[0]:
            break
        best = max(best, (_likeness(old, candidates[-i]), i))
    return None if best[1] == -len(candidates) else candidates[-best[1]].name


def _most_likeness(old: _Definition, new: _Definition) -> float:
    """Return what the likeness is at most: by their words in any order, 0 for different kinds."""
    a, b = len(old.words), len(new.words)
    if old.kind is not new.kind or max(a, b) > _MOST_WORDS or min(a, b) < _ALIKE / 2 * (a + b):
        return 0.0
    return 2 * (len(old.bag & new.bag) + old.words.count(old.name)) / (a + b)


def _likeness(old: _Definition, new: _Definition) -> float:
    """Return, from 0 to 1, how much of `old`, renamed, is in `new`."""
    words = [new.name if word == old.name else word for word in old.words]
    return SequenceMatcher(None, words, new.words, autojunk=False).ratio()


def _meanings(lines: list[str]) -> Counter[str]:
    """Return how many things each name means.

    A definition is one; an argument, a local, an attribute or a keyword is two, for it may be any.
    """
    meanings: Counter[str] = Counter()
    for node in (x for chunk in chunks_of(plain_text(lines)) for x in nodes_of(chunk)):
        match node:
            case ast.FunctionDef(name=x) | ast.AsyncFunctionDef(name=x) | ast.ClassDef(name=x):
                meanings[x] += 1
            case ast.arg(arg=x) | ast.keyword(arg=str(x)) | ast.Attribute(attr=x):
                meanings[x] += 2
            case ast.alias(name=x, asname=y):
                meanings.update({x: 2, y or x: 2})
            case ast.Name(id=x, ctx=ast.Store() | ast.Del()):
                meanings[x] += 2
    return meanings


def with_new_names(lines: list[str], renames: dict[str, str]) -> list[str]:
    """Return `lines` with each of the old names replaced, in code only."""
    result = list(lines)
    for token in reversed(tokens_of(plain_text(lines)) if renames else []):
        if token.type == tokenize.NAME and token.string in renames:
            row, start = token.start[0] - 1, token.start[1]
            line = result[row]
            result[row] = line[:start] + renames[token.string] + line[start + len(token.string) :]
    return result
