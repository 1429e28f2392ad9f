"""Renames by the user, replayed on the template's side: its changes then land where they belong."""

import ast
import tokenize
from difflib import SequenceMatcher

from redco_new.merge.fingerprint import tokens_of
from redco_new.merge.names import DEFINITIONS
from redco_new.merge.source import plain
from redco_new.merge.symbols import Symbol, symbols_of

ALIKE = 0.6  # of the words of two definitions, for one to be the other renamed


def renames(base: list[str], ours: list[str], theirs: list[str]) -> dict[str, str]:
    """Old name -> new name of the functions and classes that the user renamed throughout the file."""
    gone, new = definitions(base), definitions(ours)
    shared = gone.keys() & new.keys()
    gone = {name: s for name, s in gone.items() if name not in shared}
    new = {name: s for name, s in new.items() if name not in shared}
    used = {token.string for token in tokens_of(plain(ours)) if token.type == tokenize.NAME}
    foreign = {
        token.string for side in (base, theirs) for token in tokens_of(plain(side))
    }  # names that the template has a meaning for
    found: dict[str, str] = {}
    for old, symbol in gone.items():
        scores = {n: likeness(symbol, s, old, n) for n, s in new.items() if n not in foreign}
        best = max(scores, key=scores.__getitem__, default=None)
        clear = best is not None and scores[best] >= ALIKE and best not in found.values()
        if clear and old not in used and bound_once(old, base) and bound_once(old, theirs):
            found[old] = best
    return found


def definitions(lines: list[str]) -> dict[str, Symbol]:
    return {
        s.key: s
        for s in symbols_of(lines)
        if len(s.nodes) == 1 and isinstance(s.nodes[0], DEFINITIONS)
    }


def likeness(old: Symbol, new: Symbol, old_name: str, new_name: str) -> float:
    """0 .. 1: how much of `old`, renamed, is in `new`; 0 if one is a class and one a function."""
    if type(old.nodes[0]) is not type(new.nodes[0]):
        return 0.0
    before = [new_name if word == old_name else word for word in plain(old.body).split()]
    return SequenceMatcher(None, before, plain(new.body).split(), autojunk=False).ratio()


def bound_once(name: str, lines: list[str]) -> bool:
    """Whether `name` means one thing in a file: no argument, local, attribute or keyword has it."""
    meanings = 0
    for node in ast.walk(ast.parse(plain(lines))):
        match node:
            case ast.FunctionDef(name=x) | ast.AsyncFunctionDef(name=x) | ast.ClassDef(name=x):
                meanings += x == name
            case ast.arg(arg=x) | ast.keyword(arg=x) | ast.Attribute(attr=x):
                meanings += 2 * (x == name)
            case ast.alias(name=x, asname=y):
                meanings += 2 * (name in (x, y))
            case ast.Name(id=x, ctx=ast.Store() | ast.Del()):
                meanings += 2 * (x == name)
    return meanings <= 1


def renamed(lines: list[str], names: dict[str, str]) -> list[str]:
    """`lines` with each of `names` replaced, in code only."""
    found = list(lines)
    for token in reversed(tokens_of(plain(lines)) if names else []):
        if token.type == tokenize.NAME and token.string in names:
            row, start = token.start[0] - 1, token.start[1]
            line = found[row]
            found[row] = line[:start] + names[token.string] + line[start + len(token.string) :]
    return found
