"""Modules of the runtime that lie elsewhere: whatever names one, in code or not, names it as it is now."""

from __future__ import annotations

import ast
import re

from redco_merge.migrate.codemods import Moves

BEFORE = "redco_runtime"  # the package that they were in
FROM = re.compile(rf"(?m)^([ \t]*)from {BEFORE}((?:\.\w+)*) import ([\w, ]+)$")
DOTTED = re.compile(rf"\b{BEFORE}\.([a-z_]\w*(?:\.[a-z_]\w*)*)")
SLASHED = re.compile(rf"\b{BEFORE}/([a-z_]+(?:/[a-z_]+)*)(?=\.py\b|/)")


def with_moved(text: str, path: str, package: str, moves: Moves) -> tuple[str, list[str]]:
    """Return a text that names modules where they lie now, and what was named, for people.

    path: of the file, '/'-separated.
    package: that of the project, in which they lie.
    Where what comes of it is no Python, the text is as it was.
    """
    named: dict[str, str] = {}

    def moved(name: str) -> str | None:
        new = new_name(name, package, moves)
        if new is not None:
            named[f"{BEFORE}.{name}"] = new
        return new

    def imported(match: re.Match[str]) -> str:
        """Return the imports of what a package has: of its modules that moved, and of the rest."""
        margin, inside, names = match.groups()
        lines, rest = [], []
        for name, alias in re.findall(r"(\w+)(?: as (\w+))?", names):
            whole = f"{inside}.{name}".lstrip(".")
            new = moved(whole) if whole in moves.modules else None
            if new is None:
                rest.append(f"{name} as {alias}" if alias else name)
                continue
            head, _, last = new.rpartition(".")
            bound = alias or name
            lines.append(f"{margin}from {head} import {last}{f' as {bound}' * (bound != last)}")
        if rest:
            lines.append(f"{margin}from {BEFORE}{inside} import {', '.join(rest)}")
        return "\n".join(lines)

    def slashed(match: re.Match[str]) -> str:
        new = moved(match[1].replace("/", "."))
        return new.replace(".", "/") if new else match[0]

    after = FROM.sub(imported, text)
    after = DOTTED.sub(lambda match: moved(match[1]) or match[0], after)
    after = SLASHED.sub(slashed, after)
    if path.endswith(".py"):
        try:
            ast.parse(after)
        except SyntaxError:
            return text, []
    return after, [f"{old} -> {new}" for old, new in named.items()]


def moved_path(path: str, package: str, moves: Moves) -> str | None:
    """Return where a file of the runtime lies now; None for one that is none of it, or that is gone."""
    match = re.fullmatch(rf"{BEFORE}/(.+?)((?:/__init__)?\.py)", path)
    name = match and new_name(match[1].replace("/", "."), package, moves)
    return f"{name.replace('.', '/')}{match[2]}" if match and name else None


def new_name(name: str, package: str, moves: Moves) -> str | None:
    """Return the full name of a module of the former runtime, or of what one has; None where it did not move."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        if module := moves.modules.get(".".join(parts[:count])):
            return ".".join([package, "runtime", module, *parts[count:]])
    return None
