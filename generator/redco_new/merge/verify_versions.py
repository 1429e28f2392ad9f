"""The check of a version that both sides raised; it shares no code with the merge."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

Versions = dict[str, list[str]]  # by the name of their variable or keyword


def read_versions(nodes: Iterable[ast.AST]) -> Versions:
    """Return the texts of variables and keywords whose name speaks of a version."""
    versions: Versions = defaultdict(list)
    for node in nodes:
        if not isinstance(node, ast.Assign | ast.keyword):
            continue
        name = node.arg if isinstance(node, ast.keyword) else _name(node)
        if name and "version" in name.lower() and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                versions[name].append(node.value.value)
    return versions


def _name(node: ast.Assign) -> str:
    target = node.targets[0]
    return target.id if isinstance(target, ast.Name) and len(node.targets) == 1 else ""


def version_faults(b: Versions, o: Versions, t: Versions, r: Versions) -> Iterator[str]:
    """Yield a version of the result that is neither side's, or lower than one's."""
    for name, texts in r.items():
        sides = [side.get(name, []) for side in (b, o, t)]
        if not all(len(x) == 1 for x in (texts, *sides)) or sides[0] in sides[1:]:
            continue
        if texts not in sides[1:]:
            yield f"{name}: neither side's: {texts[0]}"
        elif _release(texts[0]) < max(_release(x[0]) for x in sides[1:]):
            yield f"{name}: {texts[0]} is lower than one side's"


def _release(version: str) -> list[int]:
    """Return the numbers that a version begins with."""
    begin = re.match(r"[v\d.]*", version)
    return [int(x) for x in re.findall(r"\d+", begin[0])] if begin else []
