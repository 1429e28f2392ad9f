"""The lines of a Python text as statements of words, cut without parsing: parts of a file have these too."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from keyword import iskeyword
from typing import NamedTuple

_STRING = r"""(?:\w{0,2})(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"""
_STRING += r"""|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"""
_TOKEN = re.compile(rf"((?:\s|\\\r?\n|\#[^\n]*)*)({_STRING}|\w+|[^\w\s]|\Z)", re.DOTALL)
_QUOTED = re.compile(r"""^(\w{0,2})'([^'"]*)'$""")
OPEN, CLOSE = frozenset("([{"), frozenset(")]}")


class Word(NamedTuple):
    """A word or sign of code.

    space: the blanks, line ends and comments before it.
    text: what it is.
    """

    space: str
    text: str


@dataclass(frozen=True)
class Statement:
    """A logical line, with the blank lines and comments above it.

    start: its first line in the text; the first of a text is 0.
    stop: the line after its last.
    indent: the blanks before its first word.
    words: what it says.
    tail: what is behind its last word in that line.
    remarks: the comments above, in and behind it.
    """

    start: int
    stop: int
    indent: str
    words: tuple[Word, ...]
    tail: str
    remarks: tuple[str, ...]

    @cached_property
    def says(self) -> tuple[str, ...]:
        """Its words, without the comma that a formatter puts before a closing bracket."""
        texts = [word.text for word in self.words]
        if len(texts) == 1 and texts[0][-1] in "'\"":
            return (" ".join(texts[0].split()),)  # a docstring
        commas, said = [0], []
        for text, after in pairwise([*texts, ""]):
            if text in OPEN:
                commas.append(0)
            elif text in CLOSE and len(commas) > 1:
                commas.pop()
            elif text == ",":
                commas[-1] += 1
                if after in CLOSE and not (after == ")" and commas[-1] == 1):
                    continue
            said.append(_in_double_quotes(text))
        return tuple(_without_brackets(said))

    @cached_property
    def head(self) -> tuple[str, ...]:
        """What it begins with, up to a bracket or a sign of assignment.

        Of a decorator that is its first argument too, of an import its module; texts begin alike.
        """
        says = self.says
        if says[:1] == ("@",):
            end = next((i for i, text in enumerate(says) if text == ","), len(says))
        elif says[:1] == ("from",):
            end = says.index("import") if "import" in says else len(says)
        elif len(says) == 1 and says[0][-1] in "'\"":
            return self.indent, '"'
        elif says[:1] == ("return",):
            end = 1
        else:
            end = next((i + 1 for i, text in enumerate(says) if text in "([{=:" and i), len(says))
        return (self.indent, *says[:end])

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What makes two statements equal: all but their layout."""
        return self.indent, self.says, self.remarks


def _in_double_quotes(text: str) -> str:
    """Return a string in the quotes that a formatter gives it; anything else as it is."""
    return _QUOTED.sub(r'\1"\2"', text) if text[-1] == "'" else text


def _without_brackets(said: list[str]) -> list[str]:
    """Return words without brackets that a formatter puts around all of a value."""
    start = 1 if said[:1] == ["return"] else said.index("=") + 1 if "=" in said else 0
    if not start or said[start : start + 1] != ["("] or said[-1] != ")":
        return said
    depth = 0
    for i, text in enumerate(said[start:], start):
        depth += (text in OPEN) - (text in CLOSE)
        if (not depth and i < len(said) - 1) or (depth == 1 and text in (",", "for")):
            return said
    return said[:start] + said[start + 1 : -1]


def cut_statements(lines: list[str]) -> list[Statement]:
    """Return the statements of lines, which they cover; the last one has no words."""
    text = "".join(lines)
    statements: list[Statement] = []
    words: list[Word] = []
    remarks: list[str] = []
    depth = row = start = 0
    for match in _TOKEN.finditer(text):
        space, word = match.groups()
        if "\n" in space or not word:  # as few are: to ask no more of the others is twice as fast
            behind, newline, above = space.partition("\n")
            if words and depth == 0 and not behind.endswith("\\"):
                remarks += remarks_of(behind)
                stop = row + 1
                indent = words[0].space.rpartition("\n")[2]
                tail = behind + newline
                statements.append(
                    Statement(start, stop, indent, tuple(words), tail, tuple(remarks))
                )
                start, words, remarks, space = stop, [], [], above
                row += 1
            remarks += remarks_of(space)
            row += space.count("\n")
            if not word:
                break
        words.append(Word(space, word))
        if word in OPEN:
            depth += 1
        elif word in CLOSE:
            depth -= 1
        elif "\n" in word:
            row += word.count("\n")
    return [*statements, Statement(start, len(lines), "", (), "", tuple(remarks))]


def remarks_of(space: str) -> list[str]:
    """Return the comments in blanks."""
    if "#" not in space:
        return []  # as nearly all of them: a fifth of the time that it takes to cut a file
    return [line.partition("#")[2].strip() for line in space.split("\n") if "#" in line]


def collide(base: Iterable[str], ours: Iterable[str], theirs: Iterable[str]) -> bool:
    """Return whether new words of one side hold a name that the other side takes away there."""
    b, o, t = Counter(base), Counter(ours), Counter(theirs)
    both = ((b - t) & (o - b)).keys() | ((b - o) & (t - b)).keys()
    return any(x.isidentifier() and not iskeyword(x) and x not in ("self", "cls") for x in both)
