"""YAML as blocks of lines, a block an entry, and as values; its text is never printed anew.

The items of a list of mappings have the key `name`, as Kubernetes merges them, where all have one and no two the same.
"""

import re
from typing import Any

import yaml

from redco_merge.blocks import Block, Unclear, lines_of_blocks, merge_blocks

_ABOVE = re.compile(r"\s*(?:#.*)?$")  # a line that belongs to the entry below it


def yaml_values(text: str) -> Any:
    """Return what a text says: dicts of texts, tuples, and (tag, text) of what is neither.

    A list whose items have names is a dict. Raises ValueError where that is not certain.
    """
    return {str(i): _value(document) for i, document in enumerate(_documents(text))}


def _documents(text: str) -> list[yaml.Node]:
    try:
        if any(isinstance(x, yaml.AliasEvent) for x in yaml.parse(text)):
            raise ValueError("a value is there twice by its name")
        return list(yaml.compose_all(text))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _value(node: yaml.Node) -> Any:
    match node:
        case yaml.MappingNode():
            values = {_key(key): _value(value) for key, value in node.value}
            if len(values) < len(node.value):
                raise ValueError("a key is there twice")
            return values
        case yaml.SequenceNode():
            names = _names(node)
            items = tuple(_value(x) for x in node.value)
            return dict(zip(names, items, strict=True)) if names else items
    return node.tag, node.value


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError("a key is no text")
    return str(node.value)


def _names(node: yaml.SequenceNode) -> list[str]:
    """Return the names of the items of a list; nothing where one has none, or two the same."""
    names = []
    for item in node.value:
        entries = item.value if isinstance(item, yaml.MappingNode) else []
        named = [y.value for x, y in entries if x.value == "name" and type(y) is yaml.ScalarNode]
        names += [f"- {name}" for name in named]
    return names if len(set(names)) == len(node.value) == len(names) else []


def merge_entries(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return lines of YAML with the changes of both sides; None where these overlap."""
    try:
        sides = [_blocks(lines) for lines in (base, ours, theirs)]
        return list(lines_of_blocks(merge_blocks(sides, lambda region: None)))
    except (Unclear, ValueError):
        return None


def _blocks(lines: list[str]) -> list[Block]:
    documents = _documents("".join(line + "\n" for line in lines))
    if len(documents) != 1:
        raise Unclear
    head, blocks = _inside(documents[0], lines, 0, len(lines))
    return [Block("", (), tuple(lines[:head])), *blocks]


def _inside(node: yaml.Node, lines: list[str], start: int, stop: int) -> tuple[int, list[Block]]:
    """Return (line of the first block, blocks) of a value that is in lines[start:stop].

    What has no blocks is one line after the last, and none.
    """
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        entries = [(_key(key), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode) and not node.flow_style and _names(node):
        entries = [(name, x, x) for name, x in zip(_names(node), node.value, strict=True)]
    else:
        return stop, []
    if start:  # in the line of its key is the head of the block that it is in
        entries = [x for x in entries if x[1].start_mark.line >= start]
    places = [_first(lines, x[1].start_mark.line, start) for x in entries]
    if len(set(places)) < len(places):
        raise Unclear
    blocks = []
    for (key, _, value), at, end in zip(entries, places, [*places[1:], stop], strict=True):
        line = next(i for i in range(at, end) if not _ABOVE.match(lines[i]))
        inner, inside = _inside(value, lines, line + 1, end)
        blocks.append(Block(key, (), tuple(lines[at:inner]), tuple(inside)))
    return (places[0] if places else stop), blocks


def _first(lines: list[str], line: int, start: int) -> int:
    """Return the first line of an entry: that of the comments above it."""
    while line > start and _ABOVE.match(lines[line - 1]):
        line -= 1
    return line
