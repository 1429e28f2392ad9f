"""What of the runtime a project carries: the modules that its files import, and those that these import in turn.

Nothing is listed by hand: a recipe that imports a module brings it, and one that no longer does leaves it out. An import is one
wherever it stands, in a function or in the code of a README too, and so are `import_module("NAME")` and, in any text,
`python -m NAME`, and what the runtime starts of itself by `{RUNTIME}.NAME`; a mention is none. Read by the lines that begin as an import: to parse all of it takes 0.4 s, a tenth of redco-new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

from redco_new.render import assets
from redco_new.render.own_runtime import AT_HOME, own_path

README, INIT = "README.md", "__init__.py"
_NAME = rf"(?<![\w.]){AT_HOME}\b(?:\.\w+)*"
_FROM = re.compile(
    rf"(?:^|;)[^\S\n]*from ({_NAME}|\.[.\w]*) import (\([^)]*\)|(?:.*\\\n)*.*)", re.MULTILINE
)
_IMPORT = re.compile(r"(?:^|;)[^\S\n]*import (.*)", re.MULTILINE)
# A launcher may quote its words: [python, -u, -m, NAME].
_CALLED = re.compile(rf"(?:\bimport_module\(\s*|-m[\s,\"']*[\s,])[\"']?({_NAME})")
_STARTED = re.compile(
    r"\{RUNTIME\}((?:\.\w+)+)"
)  # by a module of the runtime, which has no name of its own


def carried(files: Mapping[str, str], package: str) -> dict[str, str]:
    """Return {path: text} of the modules of the runtime that `files` need, with the packages they are in.

    files: path in a project -> text, which may have either name of the runtime.
    package: of the project, in which the runtime lies.
    """
    modules, needed = _modules(), dict[str, str]()
    own = f"{package}.runtime"
    names = [
        name
        for path, text in files.items()
        for name in _names(text.replace(own, AT_HOME), _package_of(path), own)
    ]
    while names:
        name = names.pop()
        path, text = modules.get(name, ("", ""))
        if path and path not in needed:
            needed[path] = text
            names += _imports_of(name)
    needed |= {x: text for x, text in _readmes().items() if x.replace(README, INIT) in needed}
    return {own_path(path, package): text for path, text in needed.items()}


def _package_of(path: str) -> str:
    """Return the package that a file is in as a module, by which its relative imports go; "" for none."""
    return ".".join(Path(path).parts[:-1]) if path.endswith(".py") else ""


@cache
def _imports_of(name: str) -> tuple[str, ...]:
    """Return what a module of the runtime may name of it."""
    path, text = _modules()[name]
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    return tuple(_names(text, package))


def _names(text: str, package: str = "", own: str = AT_HOME) -> Iterator[str]:
    """Yield what a text may name of the runtime: modules, their packages, and what is imported from these.

    package: that in which the text is a module, by which its relative imports go.
    own: what the project calls the runtime.
    """
    for name in _named(text, package):
        parts = name.replace(own, AT_HOME, 1).split(".")
        if parts[0] == AT_HOME:
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _named(text: str, package: str) -> Iterator[str]:
    """Yield the names of what a text imports or runs; of `from a import b` that is a.b, a module or not."""
    yield from _CALLED.findall(text)
    yield from (f"{AT_HOME}{name}" for name in _STARTED.findall(text))
    yield from (name for names in _IMPORT.findall(text) for name in re.findall(_NAME, names))
    for module, names in _FROM.findall(text):
        up = len(module) - len(module.lstrip("."))
        if up <= package.count(".") + bool(package):
            module = resolve_name(module, package or None)
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


@cache
def _modules() -> dict[str, tuple[str, str]]:
    """Return name -> (path in a project, text) of the runtime: the same, byte for byte, in every project.

    The part of the engine that computes a model with its kernels apart is one of its packages there.
    """
    modules, engine = {}, assets.rewriting()
    for file in sorted((assets.runtime() / AT_HOME).rglob("*.py")):
        path = file.relative_to(assets.runtime())
        modules[_name(path)] = (path.as_posix(), file.read_text(encoding="utf-8"))
    for file in sorted(engine.glob("*.py")):
        path = Path(AT_HOME, "layout", engine.name, file.name)
        text = file.read_text(encoding="utf-8")
        modules[_name(path)] = (path.as_posix(), text)
    return modules


@cache
def _readmes() -> dict[str, str]:
    """Return path -> text of what says of a package what it is."""
    files = sorted((assets.runtime() / AT_HOME).rglob(README))
    return {
        x.relative_to(assets.runtime()).as_posix(): x.read_text(encoding="utf-8") for x in files
    }


def _name(path: Path) -> str:
    """Return the name of the module at a path."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")
