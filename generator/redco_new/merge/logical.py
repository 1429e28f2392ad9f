"""Three-way merge inside a symbol: by its logical lines, then by its physical lines."""

import tokenize
from collections.abc import Hashable
from dataclasses import dataclass

from redco_new.merge.diff3 import Region, diff3
from redco_new.merge.fingerprint import comment_text, fingerprint, parse, tokens_of
from redco_new.merge.source import bare, plain

# What makes the first line of a compound statement, or a decorator, one that can be parsed alone.
REST = ("", "\n pass", "\ndef _(): pass")


@dataclass(frozen=True)
class Logical:
    """A statement's line or a comment, with the blank lines above it, and what it says."""

    key: Hashable
    lines: list[str]


def merge_text(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """The lines of a symbol with the changes of both sides, or None where they overlap.

    Layout is no change: of a statement that is laid out in two ways, ours is taken.
    """
    sides = [logical_lines(side) for side in (base, ours, theirs)]
    merged = diff3(*sides, key=lambda line: line.key, settle=_physically)
    return None if merged is None else [text for line in merged for text in line.lines]


def _physically(region: Region) -> list[Logical] | None:
    sides = [[text for line in side for text in line.lines] for side in region]
    merged = diff3(*sides, key=str.rstrip)
    return None if merged is None else [Logical(None, merged)]


def logical_lines(lines: list[str]) -> list[Logical]:
    """All of `lines`, in order, cut after each logical line and each comment."""
    found, start, depth, line = [], 0, 0, []
    for token in tokens_of(plain(lines)):
        depth += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
        if token.type in _WITHOUT_TEXT:
            continue
        line.append(token)
        alone = token.type == tokenize.COMMENT and len(line) == 1
        if token.type == tokenize.NEWLINE or alone:
            end = token.end[0] if alone else token.start[0]
            key = comment_text(token.string) if alone else _key(depth, lines, line)
            found.append(Logical(key, lines[start:end]))
            start, line = end, []
    return [*found, Logical("", lines[start:])] if start < len(lines) else found


_WITHOUT_TEXT = {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def _key(depth: int, lines: list[str], tokens: list[tokenize.TokenInfo]) -> Hashable:
    first, last = tokens[0].start[0] - 1, tokens[-1].start[0]
    text = "\n".join(bare(lines[first:last])).lstrip()
    for rest in REST:
        try:
            return depth, fingerprint(parse(text + rest).body, tokens)
        except SyntaxError:
            pass
    return depth, tuple(token.string for token in tokens)


def fingerprint_of(lines: list[str]) -> Hashable:
    """The fingerprint of a symbol's lines, at whatever depth. Raises SyntaxError."""
    text = plain(lines)
    nodes = parse(f"if 1:\n{text}").body[0].body if text[:1] in " \t\f" else parse(text).body
    return fingerprint(nodes, tokens_of(text))


def parses(lines: list[str]) -> bool:
    try:
        fingerprint_of(lines)
    except (SyntaxError, tokenize.TokenError):
        return False
    return True
