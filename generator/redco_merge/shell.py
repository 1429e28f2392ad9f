"""Shell scripts and lists of patterns as lines, those that go on in the next as one, and their merge."""

import re
from collections.abc import Callable, Hashable

from redco_merge.blocks import Block, Unclear, merge_blocks
from redco_merge.lines import Region, diff3

# What may be there once: an option of a scheduler, a variable.
_KEY = re.compile(r"#(?:SBATCH|PBS|BSUB)\s+(-[\w-]+)(?![\w ]*\s\w+=)|((?:export\s+)?\w+)=\S*$")


def merge_script(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return lines of a script with the changes of both sides; None where these overlap.

    Both may put options of a scheduler and variables in one place.
    """
    return _merge(base, ours, theirs, _key_of)


def merge_patterns(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return lines such as those of .gitignore with what both sides add; None where these overlap."""
    return _merge(base, ours, theirs, lambda line: None if line.startswith("!") else line)


def _merge(
    base: list[str], ours: list[str], theirs: list[str], key: Callable[[str], Hashable]
) -> list[str] | None:
    b, o, t = (_commands(side) for side in (base, ours, theirs))
    merged = diff3(b, o, t, key=str.rstrip, resolve=lambda region: _by_key(region, key))
    return None if merged is None else [line for x in merged for line in x.split("\n")]


def _commands(lines: list[str]) -> list[str]:
    """Return lines, those that end with a backslash with the next."""
    commands: list[str] = []
    for line in lines:
        if commands and commands[-1].endswith("\\"):
            commands[-1] += "\n" + line
        else:
            commands.append(line)
    return commands


def _key_of(line: str) -> Hashable:
    match = _KEY.match(line)
    return match and (match[1] or match[2])


def _by_key(region: Region[str], key: Callable[[str], Hashable]) -> list[str] | None:
    """Return lines of which each has a key, with the changes of both sides; None where these overlap."""
    sides = [[Block(key(line), (), (line,)) for line in side] for side in region]
    if any(block.key is None for side in sides for block in side):
        return None
    keys = [{block.key for block in side} for side in sides]
    if keys[0] - keys[1] - keys[2]:
        return None  # what both dropped may be what both put there in its place
    try:
        return [block.lines[0] for block in merge_blocks(sides, lambda region: None)]
    except Unclear:
        return None
