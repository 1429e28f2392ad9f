"""What of the runtime a project carries: the modules that its files name, and those that these name in turn.

Nothing is listed by hand: a recipe that imports a module brings it, and one that no longer does leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from redco_new.render import assets
from redco_new.render.owners import VERBATIM

# Python or not: `python -m redco_runtime.launch` in a launcher names a module as an import does.
_NAMED = re.compile(rf"\b{VERBATIM}\b(?:\.\w+)*")
_IMPORTED = re.compile(rf"\bfrom ({VERBATIM}(?:\.\w+)*) import (\([^)]*\)|.*)")


def carried(texts: Iterable[str]) -> dict[str, str]:
    """Return {path: text} of the modules of the runtime that `texts` need, with the packages they are in."""
    modules, needed = _modules(), dict[str, str]()
    names = [name for text in texts for name in _names(text)]
    while names:
        path, text = modules.get(names.pop(), ("", ""))
        if path and path not in needed:
            needed[path] = text
            names += _names(text)
    return needed


def _names(text: str) -> Iterator[str]:
    """Yield what a text may name of the runtime: modules, their packages, and what is imported from these."""
    for match in _NAMED.finditer(text):
        parts = match[0].split(".")
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    for match in _IMPORTED.finditer(text):
        yield from (f"{match[1]}.{name}" for name in re.findall(r"\w+", match[2]))


@cache
def _modules() -> dict[str, tuple[str, str]]:
    """Return name -> (path in a project, text) of the runtime: the same, byte for byte, in every project.

    The part of the engine that computes a model with its kernels apart is one of its packages there.
    """
    modules, engine = {}, assets.rewriting()
    for file in sorted((assets.runtime() / VERBATIM).rglob("*.py")):
        path = file.relative_to(assets.runtime())
        modules[_name(path)] = (path.as_posix(), file.read_text(encoding="utf-8"))
    for file in sorted(engine.glob("*.py")):
        path = Path(VERBATIM, engine.name, file.name)
        text = file.read_text(encoding="utf-8").replace(
            f"redco_new.sharding.{engine.name}", f"{VERBATIM}.{engine.name}"
        )
        modules[_name(path)] = (path.as_posix(), text)
    return modules


def _name(path: Path) -> str:
    """Return the name of the module at a path."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")
