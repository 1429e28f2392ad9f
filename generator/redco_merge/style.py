"""The user's terms, given to the template's text: indent, line ending, order and names of definitions."""

import ast
import tokenize
from collections import Counter
from difflib import SequenceMatcher
from typing import Any

from redco_merge.limit import check_time, nodes_of, remember, tree_of
from redco_merge.source import (
    DOCUMENTED,
    Source,
    docstring_of,
    indent_of_line,
    last_line,
    plain_text,
    tokens_of,
)
from redco_merge.symbols import Symbol, first_row, is_definition, symbols_of

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


def in_users_terms(
    base: Source, ours: Source, theirs: Source
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return the lines of the template's two files, with the user's line ending, indent and names; and these names.

    The names: old -> new, of what the user renamed. Raises SyntaxError.
    """
    before, after = (_in_layout(side, ours) for side in (base, theirs))
    renames = find_renames(before, ours.lines, after)
    return with_new_names(before, renames), with_new_names(after, renames), renames


def in_order_of(
    ours: list[str], base: list[str], theirs: list[str]
) -> tuple[list[str], list[str]] | None:
    """Return base and theirs with their definitions in the order of ours; None where that moved none, or theirs did too."""
    orders = [
        [x.key for x in symbols_of(side) if is_definition(x)] for side in (ours, base, theirs)
    ]
    once = set.intersection(*({x for x in side if side.count(x) == 1} for side in orders))
    mine, old, new = ([x for x in side if x in once] for side in orders)
    if mine == old or old != new:
        return None
    return _reordered(base, mine), _reordered(theirs, mine)


def _reordered(lines: list[str], order: list[str]) -> list[str]:
    """Return the lines of a file whose definitions of these names are in this order, in the places that they have."""
    symbols = symbols_of(lines)
    by_key = {x.key: x for x in symbols if x.key in order and is_definition(x)}
    next_one = iter(order)
    new = [by_key[next(next_one)] if x in by_key.values() else x for x in symbols]
    return [line for x in new for line in x.lines]


def without_gap(lines: list[str], ours: list[str]) -> list[str]:
    """Return the lines of a file without blank ones at its top, where ours has none there."""
    if ours and not ours[0].strip():
        return lines
    return lines[next((i for i, line in enumerate(lines) if line.strip()), len(lines)) :]


def _in_layout(source: Source, ours: Source) -> list[str]:
    """Return the lines of `source` with the indent and the line ending of ours."""
    text = plain_text(source.lines)
    indent = _indent_of(plain_text(ours.lines))
    lines = _reindent(text, indent) if indent else text.split("\n")[:-1]
    newline = ours.newline
    return [line + newline for line in lines]


@remember
def _indent_of(text: str) -> str:
    """Return what most blocks add to the indent of the line above; "" if none is indented."""
    lines = text.split("\n")
    steps: dict[int, str] = {}
    nodes: list[Any] = list(tree_of(text).body)
    for node in nodes:  # which grows
        header = node.pattern if isinstance(node, ast.match_case) else node
        for block in filter(None, (getattr(node, name, None) for name in _BLOCKS)):
            nodes += block
            if isinstance(block[0], ast.ExceptHandler):
                continue
            first = block[0].pattern if isinstance(block[0], ast.match_case) else block[0]
            row = first_row(first)
            outer, inner = (indent_of_line(lines[x]) for x in (header.lineno - 1, row))
            steps[row] = inner.removeprefix(outer)
    counts = Counter(steps[row] for row in sorted(steps) if steps[row])
    return max(counts, key=counts.__getitem__, default="")


def _reindent(text: str, indent: str) -> list[str]:
    """Return the lines of `text`, each level indented by `indent`; the inside of strings stays."""
    old, lines = _indent_of(text), text.split("\n")[:-1]
    if old in ("", indent):
        return lines
    fixed = _rows_in_strings(text)
    return [line if i in fixed else _with_indent(line, old, indent) for i, line in enumerate(lines)]


def _with_indent(line: str, old: str, new: str) -> str:
    levels = 0
    while line.startswith(old):
        line, levels = line[len(old) :], levels + 1
    return new * levels + line if line else ""


def _rows_in_strings(text: str) -> set[int]:
    """Return the lines that begin inside a string, other than a docstring."""
    rows: set[int] = set()
    nodes = nodes_of(text)
    for node in nodes:
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            rows |= set(range(node.lineno, last_line(node)))
    for node in nodes:
        if isinstance(node, DOCUMENTED) and docstring_of(node.body[:1]):
            rows -= set(range(node.body[0].lineno, last_line(node.body[0])))
    return rows


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
    used = {x.string for x in tokens_of(plain_text(ours)) if x.type == tokenize.NAME}
    foreign = {x.string for side in (base, theirs) for x in tokens_of(plain_text(side))}
    of_template = [_meanings(side) for side in (base, theirs)]
    candidates = {name: _words(name, s) for name, s in new.items() if name not in foreign}
    renames: dict[str, str] = {}
    for name, symbol in gone.items():
        if name not in used and all(meanings[name] <= 1 for meanings in of_template):
            best = _most_alike(_words(name, symbol), candidates)
            if best and best not in renames.values():
                renames[name] = best
    return renames


def _definitions(lines: list[str]) -> dict[str, Symbol]:
    """Return the functions and classes of a file, by name."""
    return {x.key: x for x in symbols_of(lines) if is_definition(x) and len(x.nodes) == 1}


def _words(name: str, symbol: Symbol) -> tuple[type, list[str]]:
    """Return the kind of a definition, and its words without its name."""
    return type(symbol.nodes[0]), ["" if x == name else x for x in plain_text(symbol.body).split()]


def _most_alike(
    old: tuple[type, list[str]], candidates: dict[str, tuple[type, list[str]]]
) -> str | None:
    """Return the name of the first that has most of `old`, renamed, in it; None if no one has enough."""
    check_time()
    kind, words = old
    matcher = SequenceMatcher(None, [], words, autojunk=False)
    bounds: list[tuple[float, str]] = []  # what the likeness is at most
    for name, (other_kind, other_words) in candidates.items():
        matcher.set_seq1(other_words)
        if kind is other_kind and max(len(words), len(other_words)) <= _MOST_WORDS:
            if matcher.real_quick_ratio() >= _ALIKE:
                bounds.append((matcher.quick_ratio(), name))
    best, least = None, _ALIKE
    for bound, name in sorted(bounds, key=lambda x: -x[0]):
        if bound < least:
            break
        matcher.set_seq1(candidates[name][1])
        if matcher.ratio() > least or (best is None and matcher.ratio() == least):
            best, least = name, matcher.ratio()
    return best


def _meanings(lines: list[str]) -> Counter[str]:
    """Return how many things each name means.

    A definition is one; an argument, a local, an attribute or a keyword is two, for it may be any.
    """
    meanings: Counter[str] = Counter()
    for node in nodes_of(plain_text(lines)):
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
