"""A project's name for its runtime: redco_runtime, as templates and the runtime at home have it, is PACKAGE.runtime there."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from redco_new.render.imports import sort_imports

AT_HOME = "redco_runtime"


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
