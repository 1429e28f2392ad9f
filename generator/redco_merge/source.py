"""A Python file as lines, from which its bytes can be restored, and what a piece of code says."""

import ast
import codecs
import io
import re
import tokenize
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from tokenize import TokenInfo
from typing import NamedTuple

from redco_merge.limit import remember
from redco_merge.result import Unmergeable

# The tokens that no formatter adds or removes: they tell where a comment stands.
_WORDS = {tokenize.NAME, tokenize.NUMBER, tokenize.STRING}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# str.splitlines also cuts at form feeds and Unicode separators, where Python sees no new line.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Source:
    """A decoded file.

    lines: each with its own line ending.
    encoding: as Python names it.
    bom: its byte order mark, or b"".
    """

    lines: list[str]
    encoding: str
    bom: bytes

    @property
    def newline(self) -> str:
        """The line ending of most lines; "\\n" where there is none."""
        ends = Counter("\r\n" if line.endswith("\r\n") else "\n" for line in self.lines)
        return max(ends, key=ends.__getitem__, default="\n")

    def encode(self, lines: list[str]) -> bytes:
        """Return `lines` as bytes with this file's encoding, mark, and newline or none at the end.

        Raises Unmergeable if they hold a character that this file's encoding lacks.
        """
        whole = [line if line.endswith("\n") else line + self.newline for line in lines]
        if whole and self.lines and not self.lines[-1].endswith("\n"):
            whole[-1] = whole[-1].removesuffix("\n").removesuffix("\r")
        try:
            return self.bom + "".join(whole).encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Unmergeable(f"your file's encoding, {self.encoding}, lacks: {error}") from error


def decode_source(data: bytes) -> Source:
    """Return a Python file as lines. Raises Unmergeable if they cannot be told with certainty."""
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    rest = data.removeprefix(bom)
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(rest).readline)[0]
        text = rest.decode(encoding)
        exact = text.encode(encoding) == rest
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise Unmergeable(f"cannot be decoded: {error}") from error
    if not exact or re.search(r"\r(?!\n)", text):
        raise Unmergeable("has bytes or line endings that Python itself reads in two ways")
    return Source(_LINE.findall(text), encoding, bom)


def plain_text(lines: list[str]) -> str:
    """Return `lines` as one text with "\\n" line endings, the last one too."""
    return "".join(line.rstrip("\r\n") + "\n" for line in lines)


class Fingerprint(NamedTuple):
    """What a piece of code says: equal for two that differ in layout only.

    trees: the syntax trees of its statements, without the layout of docstrings.
    comments: each with the number of words before it, which tells its place.
    """

    trees: tuple[Hashable, ...]
    comments: tuple[tuple[int, str], ...]


def fingerprint_code(nodes: Iterable[ast.stmt], tokens: Iterable[TokenInfo]) -> Fingerprint:
    """Return the fingerprint of statements, whose tokens are `tokens`."""
    comments, words = [], 0
    for token in tokens:
        words += token.type in _WORDS
        if token.type == tokenize.COMMENT:
            comments.append((words, comment_text(token.string)))
    return Fingerprint(tuple(map(_said, nodes)), tuple(comments))


@remember  # a merge asks for those of its four files again and again
def tokens_of(text: str) -> list[TokenInfo]:
    """Return the tokens of a text. Raises SyntaxError or tokenize.TokenError."""
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def _said(value: object) -> Hashable:
    """Return what a node says, or a field of one; of a docstring, without its layout."""
    if isinstance(value, ast.AST):
        if isinstance(value, ast.Expr) and (literal := docstring_of([value])):
            lines = str(literal.value).strip().splitlines()
            return "\n".join(line.strip() for line in lines)
        return (type(value), *[_said(getattr(value, name, None)) for name in value._fields])
    if isinstance(value, list):
        return tuple([_said(x) for x in value])
    return repr(value)


def docstring_of(nodes: list[ast.stmt]) -> ast.Constant | None:
    """Return the text that `nodes` consist of, which is a docstring if they begin a scope."""
    match nodes:
        case [ast.Expr(value=ast.Constant(value=str()) as literal)]:
            return literal
    return None


def comment_text(line: str) -> str:
    """Return what a comment says: "#x", "# x " and "    # x" say the same."""
    return line.strip().removeprefix("#").strip()


def last_line(node: ast.stmt | ast.expr) -> int:
    """Return the number of the last line of a node that was parsed from a text; the first is 1."""
    return node.end_lineno or node.lineno


def indent_of_line(line: str) -> str:
    """Return the blanks that a line begins with."""
    return line[: len(line) - len(line.lstrip())]
