"""What a project that was made keeps of config.py, where redco's own defaults are others by now.

An update that changed the rate of a run, or which parameters decay, would do so without a word: the class
Optimizer keeps the defaults that redco wrote for this project, and `matrices` its text. So do fields of Data and Train
that say what was so before they were there.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

SETTINGS, RULE = "Optimizer", "matrices"  # a class, a function of config.py
# Fields of further classes -> what a project did that has none of them, as Python; the runtime has these in run.py.
OTHERS = ("Data", "Train")
FORMER = {
    "subword": '"last"',
    "resample": '"bicubic"',
    "deviation": '"population"',
    "action_limit": "2.0",
}


@dataclass(frozen=True)
class _Part:
    """A default or a function in a text, from the byte `start` to `stop`."""

    start: int
    stop: int
    text: str


def keep_defaults(theirs: str, base: str) -> tuple[str, list[str]]:
    """Return `theirs`, which redco writes now, with what the `base` has that it wrote before; a note for each.

    Both are texts of config.py; what is no Python, or has no such class, changes nothing.
    """
    try:
        new, old = _parts(theirs), _parts(base)
    except (SyntaxError, ValueError):
        return theirs, []
    notes, content = list[str](), theirs.encode()
    for name, part in sorted(new.items(), key=lambda item: -item[1].start):
        was = old[name].text if name in old else FORMER.get(name) if old else None
        if was and was != part.text:
            content = content[: part.start] + was.encode() + content[part.stop :]
            what = "stays as it was" if name == RULE else f"stays {was}"
            today = "another" if name == RULE else part.text
            notes.append(f"config.py: {name} {what}; a project made today has {today}")
            if name != RULE:
                content = _without_reason(content, part.start)
    return content.decode(), notes[::-1]


def _without_reason(content: bytes, start: int) -> bytes:
    """Return a text without the comment above the line of a default, which is about redco's own."""
    line = content.rindex(b"\n", 0, start) + 1
    above = content.rindex(b"\n", 0, line - 1) + 1
    return (
        content if content[above:line].split()[:1] != [b"#"] else content[:above] + content[line:]
    )


def _parts(text: str) -> dict[str, _Part]:
    """Return the defaults of the class, by field, and the function, by its name. Raises SyntaxError."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def part(node: ast.expr | ast.stmt) -> _Part:
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        return _Part(start, stop, text.encode()[start:stop].decode())

    parts = dict[str, _Part]()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name in (SETTINGS, *OTHERS):
            fields = (x for x in node.body if isinstance(x, ast.AnnAssign))
            own = {ast.unparse(x.target): part(x.value) for x in fields if x.value}
            parts |= {k: x for k, x in own.items() if node.name == SETTINGS or k in FORMER}
        if isinstance(node, ast.FunctionDef) and node.name == RULE:
            parts[RULE] = part(node)
    return parts
