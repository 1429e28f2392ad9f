"""A project's name for its runtime: redco_runtime, as templates and the runtime at home have it, is PACKAGE.runtime there."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from redco_new.render.values import LINE

AT_HOME = "redco_runtime"
NAMES = r"\([^)#]*\)|[\w, ]+"  # of an import, without comments


def own_path(path: str, package: str) -> str:
    """Return the path in a project of a file of the runtime: redco_runtime/a.py -> PACKAGE/runtime/a.py."""
    return PurePosixPath(package, "runtime", *PurePosixPath(path).parts[1:]).as_posix()


def with_own_runtime(path: str, text: str, package: str) -> str:
    """Return the text of a project's file with its own runtime in the place of redco_runtime.

    Its imports are in isort's order again, and in black's layout: they are all that a longer name moves.
    """
    if AT_HOME not in text:
        return text
    text = re.sub(rf"\b{AT_HOME}/", f"{package}/runtime/", text)
    text = re.sub(rf"\b{AT_HOME}\b", f"{package}.runtime", text)
    return sort_imports(text, package) if path.endswith(".py") else text


def at_home(text: str, package: str) -> str:
    """Return the text of a project's file as `with_own_runtime` gets it."""
    return re.sub(rf"\b{package}\.runtime\b", AT_HOME, text)


def sort_imports(text: str, package: str) -> str:
    """Return Python with its blocks of imports from the project's package in isort's order, in black's layout."""
    module = rf"{package}(?:\.\w+)*"
    line = rf"from {module} import (?:{NAMES})"
    return re.sub(
        rf"(?m)^( *){line}(?:\n\1{line})*$",
        lambda block: _sorted(block[1], re.findall(rf"from ({module}) import ({NAMES})", block[0])),
        text,
    )


def _sorted(margin: str, imports: list[tuple[str, str]]) -> str:
    """Return the lines of a block of imports from one package: (module, names), those of one module as one."""
    names: dict[str, list[str]] = {}
    for module, text in imports:
        names.setdefault(module, []).extend(re.findall(r"\w+(?: as \w+)?", text))
    stacked = {module for module, text in imports if text.endswith(",\n" + margin + ")")}
    lines = []
    for module in sorted(names):
        words = sorted(names[module], key=_kind)
        line = f"{margin}from {module} import {', '.join(words)}"
        if module in stacked or len(line) > LINE:
            inner = "".join(f"{margin}    {word},\n" for word in words)
            line = f"{margin}from {module} import (\n{inner}{margin})"
        lines.append(line)
    return "\n".join(lines)


def _kind(word: str) -> tuple[int, str]:
    """Return what isort sorts a name by: constants, classes, the rest."""
    name = word.partition(" ")[0]
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name
