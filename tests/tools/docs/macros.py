"""The page of the macros that templates of models share, of the templates themselves."""

from __future__ import annotations

import re

import jinja2
from jinja2 import nodes

from redco_new.render import assets

SHARED = assets.templates() / "models" / "shared"
HEAD = """# What the models of families share

Macros, each with what its comment says. `model.py.jinja` of a family puts them together; nothing else is printed from here. What comes in several forms
stands in one file with a table of them, as `ROPES[kind]`: of each kind the same.
"""
COMMENT = re.compile(r"\{#(.*?)#\}\n", re.DOTALL)


def page() -> str:
    """Return the README of templates/models/shared."""
    files = sorted(SHARED.glob("*.jinja"))
    return HEAD + "".join(
        f"\n## {path.name}\n\n" + "".join(f"- {x}\n" for x in signatures(path.read_text()).values())
        for path in files
    )


def signatures(text: str) -> dict[str, str]:
    """Return name -> a line for each macro and each table of a file: how it is called, and what its comment says."""
    tree = jinja2.Environment().parse(text)
    macros = {x.name: x for x in tree.find_all(nodes.Macro)}
    tables = [x for x in tree.find_all(nodes.Assign) if isinstance(x.node, nodes.Dict)]
    comments = _comments(text)
    variants = {x.name for one in tables for x in one.node.find_all(nodes.Name)}
    lines = {}
    for x in sorted([*macros.values(), *tables], key=lambda x: x.lineno):
        if isinstance(x, nodes.Assign):
            name, kinds = x.target.name, [pair.key.value for pair in x.node.items]
            said = next((c for c in comments.values() if f"{name}[kind]" in c), "")
            words = f"`{name}[kind]`, of {', '.join(kinds)}"
        elif x.name in variants:
            continue
        else:
            name, words, said = x.name, _signature(x.name, x), comments.get(x.lineno, "")
        lines[name] = f"{words}{said and f': {said}'}"
    return lines


def _signature(name: str, macro: nodes.Macro) -> str:
    return f"`{name}({', '.join(x.name for x in macro.args)})`"


def _comments(text: str) -> dict[int, str]:
    """Return the comments of a file, each in one line, by the number of the line below."""
    return {
        text.count("\n", 0, x.end()) + 1: " ".join(re.sub(r"\{\{-? *|-? *\}\}", "`", x[1]).split())
        for x in COMMENT.finditer(text)
    }
