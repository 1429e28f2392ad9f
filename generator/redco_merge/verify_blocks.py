"""The check that each statement of a merge is in a block that it is in on a side, each decorator on its definition.

What is put beside a block that the other side deletes may end in the block above, and be right Python. It shares no code with the merge.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

from redco_merge.limit import remember, tree_of
from redco_merge.verify_ledger import decode_code

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PARTS = ("body", "orelse", "finalbody", "handlers", "cases")
_EMPTY = (ast.Pass, ast.Return, ast.Continue, ast.Break, ast.Raise)
_TWICE = "decorated twice:"
Blocks = dict[str, set[str]]  # what statements and headers say -> the headers of their blocks


def block_faults(base: bytes, ours: bytes, theirs: bytes, result: bytes) -> Iterator[str]:
    """Yield what is in a block that it is in on no side, where each side that has it has that block too.

    Raises where a side is not Python.
    """
    sides, merged = [_read(x) for x in (base, ours, theirs)], _read(result)
    for said, headers in merged.items():
        if said.startswith(_TWICE) and not any(said in side for side in sides):
            yield said[:60]
        having = [side for side in sides if said in side]
        for header in headers:
            if having and all(_is_elsewhere(said, header, x, merged) for x in having):
                yield f"in another block: {said[:60]}"


def _is_elsewhere(said: str, header: str, side: Blocks, merged: Blocks) -> bool:
    """Return whether a statement is in a block that is not the side's: neither edited there, nor put around it."""
    own = side[said]
    if header in own:
        return False
    if not header or header in side:
        return True
    return all(x and x in merged for x in own) and not own & _around(header, merged)


def _around(header: str, blocks: Blocks) -> set[str]:
    """Return the headers of all blocks around a header."""
    around: set[str] = set()
    left = [header]
    while left:
        new = blocks.get(left.pop(), set()) - around
        around |= new
        left += new
    return around


@remember
def _read(data: bytes) -> Blocks:
    blocks: Blocks = defaultdict(set)
    text = decode_code(data)
    _enter(blocks, tree_of(text).body, "", text.split("\n"))
    return blocks


def _enter(blocks: Blocks, body: list[ast.stmt], header: str, lines: list[str]) -> None:
    for node in body:
        parts = [x for name in _PARTS if isinstance(x := getattr(node, name, None), list) and x]
        said = _said(node, [part[0] for part in parts], lines)
        if not isinstance(node, _EMPTY):
            blocks[said].add(header)
        if isinstance(node, _DEFINITIONS):
            blocks[node.name].add(header)
            for decorator, times in Counter(map(ast.dump, node.decorator_list)).items():
                blocks[f"@{decorator}"].add(node.name)
                if times > 1:
                    blocks[f"{_TWICE} {node.name} {decorator}"].add(header)
        for part in parts:
            _enter(blocks, part, said, lines)


def _said(node: ast.AST, inside: list[ast.AST], lines: list[str]) -> str:
    """Return the lines of a statement, without those of its blocks and decorators, and without blanks."""
    start = getattr(node, "lineno", getattr(getattr(node, "pattern", None), "lineno", 1))
    places = [
        y.lineno
        for x in inside
        for y in [x, *getattr(x, "decorator_list", [])]
        if hasattr(y, "lineno")
    ]
    stop = max(start + 1, min(places, default=getattr(node, "end_lineno", start) + 1))
    return "".join("".join(lines[start - 1 : stop - 1]).split())
