"""The migrations of one file: each codemod until it has nothing to do, checked, or the file is left alone."""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redco_merge.migrate.codemods import Call, Codemod, Migration, Moves, Rename
from redco_merge.migrate.moves import with_moved
from redco_merge.migrate.versions import MIGRATIONS

if TYPE_CHECKING:
    from redco_merge.migrate.source import Source

# Of one codemod in one file: a person's file has a handful. More would be one that undoes itself.
MOST_REWRITINGS = 50


@dataclass(frozen=True)
class Step:
    """What one codemod made of a file.

    title: what changed in redco.
    rewritings: what was done, for people: "say -> print_once".
    content: the file after it.
    """

    title: str
    rewritings: tuple[str, ...]
    content: bytes


@dataclass(frozen=True)
class Migrated:
    """A file after its migrations: the steps that changed it, in order; its content after all of them."""

    content: bytes
    steps: tuple[Step, ...] = ()


def migrate(
    content: bytes,
    path: str,
    package: str,
    interface: int,
    migrations: tuple[Migration, ...] = MIGRATIONS,
) -> Migrated:
    """Return a file of a user's with what it calls as redco has it now.

    path: '/'-separated, in the project.
    package: that of the project.
    interface: the number of the last migration that the project has been through.

    What cannot be proved to mean the same stays as it is; so does a file that cannot be read. Never raises.
    """
    codemods = [x for m in migrations if m.number > interface for x in m.codemods]
    try:
        text = content.decode("utf-8")
        if not path.endswith(".py"):
            codemods = [x for x in codemods if isinstance(x, Moves)]
        # What one has rewritten, a later one may go on from.
        if not any(_is_about(text, x) for x in codemods) or text.startswith("\ufeff"):
            return Migrated(content)
        steps = [*_steps(text, path, package, codemods)]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # libcst may panic, which is no Exception
        return Migrated(content)
    return Migrated(steps[-1].content, tuple(steps)) if steps else Migrated(content)


def _steps(text: str, path: str, package: str, codemods: list[Codemod]) -> Iterator[Step]:
    for codemod in codemods:
        if isinstance(codemod, Moves):
            text, rewritings = with_moved(text, path, package, codemod)
        else:
            text, rewritings = _with_all(text, path, package, codemod)
        if rewritings:
            yield Step(codemod.title, tuple(rewritings), text.encode())


def _with_all(text: str, path: str, package: str, codemod: Rename | Call) -> tuple[str, list[str]]:
    """Return (the text, what was done) once a codemod has nothing to do in it."""
    rewritings: list[str] = []
    while rewriting := _first_rewriting(text, path, package, codemod):
        text, what = rewriting
        rewritings.append(what)
        if len(rewritings) > MOST_REWRITINGS:
            raise RuntimeError(f"{codemod.title} does not end")
    return text, rewritings


def _first_rewriting(
    text: str, path: str, package: str, codemod: Rename | Call
) -> tuple[str, str] | None:
    """Return (the text after one rewriting, what that was); None where there is none that stands."""
    from redco_merge.migrate.match import in_package
    from redco_merge.migrate.rewrite import renamings, rewritings

    if not _is_about(text, codemod):
        return None
    source = parse_source(text, path)
    if isinstance(codemod, Rename):
        own = (in_package(name, package) for name in (codemod.before, codemod.after))
        ways = renamings(source, Rename(*own))
    else:
        ways = rewritings(source, codemod, package)
    for after, what in ways:
        after = _without_unused(source, after, path, codemod)
        if _stands(text, after):
            return after, what
    return None


def _without_unused(source: Source, after: str, path: str, codemod: Rename | Call) -> str:
    """Return the text without the import that a rewriting left with no use."""
    from redco_merge.migrate.unused import drop_unused

    return drop_unused(source, parse_source(after, path), codemod)


def _is_about(text: str, codemod: Codemod) -> bool:
    """Tell whether a text has the words that it has where a codemod is about it."""
    return all(word in text for word in codemod.words)


@functools.lru_cache(maxsize=4)  # the text after one rewriting is that before the next
def parse_source(text: str, path: str) -> Source:
    """Return a file parsed: libcst is imported here, which takes a while."""
    from redco_merge.migrate.source import Source

    module = path.removesuffix(".py").replace("/", ".")
    is_package = module.endswith("__init__")
    return Source(text, module.removesuffix(".__init__"), is_package)


def _stands(before: str, after: str) -> bool:
    """Tell whether a text is still Python, and has the comments that it had."""
    try:
        ast.parse(after)
    except SyntaxError:
        return False
    return after != before and not _comments(before) - _comments(after)


def _comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def stale_names(
    content: bytes, path: str, interface: int, migrations: tuple[Migration, ...] = MIGRATIONS
) -> list[str]:
    """Return what a file still uses that redco no longer has, for people: its user is to rewrite it.

    The arguments are those of `migrate`. Never raises.
    """
    gone = _gone_names(interface, migrations)
    try:
        text = content.decode("utf-8")
        if not any(name.rpartition(".")[2] in text for name in gone):
            return []
        source = parse_source(text, path)
        lines = {
            name: source.line(statement) for statement, _, name in source.imports() if name in gone
        }
        for name in gone:
            for node in source.references(name):
                lines.setdefault(name, source.line(node))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # as above
        return []
    return [f"line {line}: {name} is gone: {gone[name]}" for name, line in lines.items()]


def _gone_names(interface: int, migrations: tuple[Migration, ...]) -> Mapping[str, str]:
    """Return {full name: what to write instead} of what migrations took away."""
    gone: dict[str, str] = {}
    for migration in migrations:
        if migration.number > interface:
            renames = (x for x in migration.codemods if isinstance(x, Rename))
            gone |= {x.before: f"it is {x.after} now" for x in renames}
            gone |= {name: f"write {instead}" for name, instead in migration.gone.items()}
    return gone
