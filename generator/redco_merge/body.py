"""Three-way merge of one symbol: of the comments above it, and of its text.

The text is merged by its logical lines, and where these overlap, by its physical lines.
"""

import ast
import re
import tokenize
from collections.abc import Hashable
from dataclasses import dataclass

from redco_merge.lines import Region, diff3
from redco_merge.source import (
    Fingerprint,
    comment_text,
    fingerprint_code,
    indent_of_line,
    plain_text,
    tokens_of,
    without_endings,
)
from redco_merge.statements import collide
from redco_merge.symbols import HEADER, Symbol, comments_of

# What makes the first line of a compound statement, or a decorator, one that can be parsed alone.
_COMPLETIONS = ("", "\n pass", "\ndef _(): pass")
_WITHOUT_TEXT = {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def merge_lead(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return the blank lines and comments above a symbol; None where both changed the same comment.

    Where the template has the same comments and more blank lines, these are used: a new symbol
    may now stand above this one.
    """
    b, o, t = (comments_of(side) for side in (base, ours, theirs))
    if t in (b, o):
        unchanged = without_endings(ours) == without_endings(base)
        return theirs if unchanged and len(theirs) > len(ours) else ours
    return theirs if o == b else diff3(base, ours, theirs, key=str.strip)


def merge_body(base: Symbol, ours: Symbol, theirs: Symbol) -> list[str] | None:
    """Return the text of a symbol; None where both changed one place, or the sum is not Python."""
    if theirs.says_as(base) or theirs.says_as(ours):
        return ours.body
    if ours.same_text(base):
        return theirs.body
    merged = merge_code_lines(base.body, ours.body, theirs.body)
    if collide(*(re.findall(r"\w+", "".join(x.body)) for x in (base, ours, theirs))):
        merged = None
    if merged is not None and not _can_be_parsed(_complete(ours, merged)):
        merged = None
    if not ours.says_as(base):
        return merged
    # The user only laid it out anew: that stays where it can.
    if merged and ours.key != HEADER and _fingerprint_of_lines(merged) == theirs.fingerprint:
        return merged
    return theirs.body


def _complete(symbol: Symbol, lines: list[str]) -> list[str]:
    """Return `lines` as something that can be parsed: the header of a class needs a body."""
    if symbol.key != HEADER:
        return lines
    return [*lines, f"{indent_of_line(symbol.body[0])} pass\n"]


@dataclass(frozen=True)
class _LogicalLine:
    """A statement's line or a comment.

    key: what it says.
    lines: its physical lines, with the blank lines above it.
    """

    key: Hashable
    lines: list[str]


def merge_code_lines(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return the lines of a symbol with the changes of both sides, or None where they overlap.

    Layout is no change: of a statement that is laid out in two ways, ours is used.
    """
    b, o, t = (_logical_lines(side) for side in (base, ours, theirs))
    merged = diff3(b, o, t, key=lambda line: line.key, resolve=_merge_physical_lines)
    return None if merged is None else [text for line in merged for text in line.lines]


def _merge_physical_lines(region: Region[_LogicalLine]) -> list[_LogicalLine] | None:
    b, o, t = ([text for line in side for text in line.lines] for side in region)
    merged = diff3(b, o, t, key=str.rstrip)
    return None if merged is None else [_LogicalLine(None, merged)]


def _logical_lines(lines: list[str]) -> list[_LogicalLine]:
    """Cut `lines` after each logical line and each comment."""
    logical: list[_LogicalLine] = []
    tokens: list[tokenize.TokenInfo] = []
    start = depth = 0
    for token in tokens_of(plain_text(lines)):
        depth += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
        if token.type in _WITHOUT_TEXT:
            continue
        tokens.append(token)
        alone = token.type == tokenize.COMMENT and len(tokens) == 1
        if token.type == tokenize.NEWLINE or alone:
            end = token.end[0] if alone else token.start[0]
            key = comment_text(token.string) if alone else _key_of(depth, lines, tokens)
            logical.append(_LogicalLine(key, lines[start:end]))
            start, tokens = end, []
    return [*logical, _LogicalLine("", lines[start:])] if start < len(lines) else logical


def _key_of(depth: int, lines: list[str], tokens: list[tokenize.TokenInfo]) -> Hashable:
    """Return what a logical line says, at its depth; its tokens where it cannot be parsed alone."""
    first, last = tokens[0].start[0] - 1, tokens[-1].start[0]
    text = "\n".join(without_endings(lines[first:last])).lstrip()
    for completion in _COMPLETIONS:
        try:
            return depth, fingerprint_code(ast.parse(text + completion).body, tokens)
        except SyntaxError:
            pass
    return depth, tuple(token.string for token in tokens)


def _fingerprint_of_lines(lines: list[str]) -> Fingerprint:
    """Return the fingerprint of a symbol's lines, at whatever depth. Raises SyntaxError."""
    text = plain_text(lines)
    if text[:1] not in " \t\f":
        nodes = ast.parse(text).body
    else:
        block = ast.parse(f"if 1:\n{text}").body[0]
        nodes = block.body if isinstance(block, ast.If) else []
    return fingerprint_code(nodes, tokens_of(text))


def _can_be_parsed(lines: list[str]) -> bool:
    try:
        _fingerprint_of_lines(lines)
    except (SyntaxError, tokenize.TokenError):
        return False
    return True
