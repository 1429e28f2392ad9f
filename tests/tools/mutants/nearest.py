"""Which test files reach a module, and by how many imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# A program that a test starts names what it imports in a string.
NAMED = re.compile(r"\bredco_(?:plan|merge|runtime)(?:\.\w+)+")
# A feature, and what a process of the runtime's own reads, is named from its root.
FEATURE = re.compile(r'\bfeature\(\s*"[\w-]+",\s*"([\w.]+)"|\{RUNTIME\}\.([\w.]+)')
FROM = re.compile(r"\bfrom (redco_\w+(?:\.\w+)*) import ([\w, ]+)")


def imports(path: Path, module: str) -> Iterator[str]:
    """Yield the names that a file may import, as `a.b.c`, be they modules or members of one."""
    text = path.read_text()
    yield from NAMED.findall(text)
    yield from (f"redco_runtime.{a or b}" for a, b in FEATURE.findall(text))
    for of, names in FROM.findall(text):
        yield from (f"{of}.{name.strip()}" for name in names.split(","))
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            of = ".".join([*base, *([node.module] if node.module else [])])
            yield of
            yield from (f"{of}.{alias.name}" for alias in node.names)


def modules(root: Path) -> dict[str, Path]:
    """Return each module below a folder of the path, as it is imported."""
    names = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def nearest(tree: Path, tested: Path, folders: tuple[str, ...]) -> dict[Path, int]:
    """Return how far the test files of the folders are that reach a module: 1 where one imports it, 2 where
    one imports what does, and so on; all where none reaches it by imports.
    """
    every = modules(tree / "generator") | modules(tree / "runtime") | modules(tree / "tests")
    targets = {name: set(imports(path, name)) & set(every) for name, path in every.items()}
    name = next(name for name, path in every.items() if path == tested)
    distance = {name: 0}
    layer = {name}
    while layer:
        layer = {by for by, of in targets.items() if of & layer and by not in distance}
        distance |= dict.fromkeys(layer, max(distance.values()) + 1)
    names = {path: name for name, path in every.items()}
    files = [path for folder in folders for path in (tree / folder).rglob("test_*.py")]
    reach = {path: distance[names[path]] for path in files if names[path] in distance}
    return reach or dict.fromkeys(files, 0)
