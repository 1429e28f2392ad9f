"""What a merge may take: 30 s, after which it is a conflict; and what it reads of a text once, Python's own trees first."""

import ast
import symtable
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

from redco_merge.result import Unmergeable

P = ParamSpec("P")
T = TypeVar("T")
_MOST = 512  # of each kind: a merge has some ten texts, and their definitions
_forgets: list[Callable[[], None]] = []


def remember(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function work out once, in a merge, what it makes of equal arguments; nobody is to change that."""
    cached = lru_cache(maxsize=_MOST)(function)
    _forgets.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Make `check_time` raise once the seconds are over; drop all that is remembered in the end."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)
        for drop in _forgets:
            drop()


def check_time() -> None:
    """Raise Unmergeable if the merge has taken too long; for whatever may take more than a moment."""
    if time.monotonic() > _deadline.get():
        raise Unmergeable("it would take too long")


@remember
def tree_of(text: str) -> ast.Module:
    """Return the syntax tree of a text. Raises SyntaxError."""
    check_time()  # for whatever is asked of a text begins here
    return ast.parse(text)


@remember
def nodes_of(text: str) -> list[Any]:
    """Return all nodes of a text. Raises SyntaxError."""
    return list(ast.walk(tree_of(text)))


@remember
def names_of_file(text: str) -> tuple[set[str], set[str]]:
    """Return the names of the file that a text uses, and those that it binds, in whatever scope. Raises SyntaxError."""
    used, bound = set[str](), set[str]()
    tables = [symtable.symtable(text, "<merge>", "exec")]
    for table in tables:  # which grows
        tables += table.get_children()
        function = table if isinstance(table, symtable.Function) else None
        names = function.get_globals() if function else table.get_identifiers()
        for symbol in map(table.lookup, names):
            if table is tables[0] or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                    bound.add(symbol.get_name())
                if symbol.is_referenced():
                    used.add(symbol.get_name())
    return used, bound
