"""The words of a statement, with each bracket as one part."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from redco_merge.statements import CLOSE, OPEN, Word

Words = Sequence[Word]


class Unclear(Exception):
    """Both sides changed the same place."""


@dataclass(frozen=True)
class Group:
    """A bracket with its elements.

    opens: the bracket.
    closes: the other one.
    elements: the words of each; a group is one of them.
    comma: whether one is behind the last.
    named: whether its elements have no place but a name: those of a set, a dict or an import.
    """

    opens: Word
    closes: Word
    elements: tuple["Element", ...]
    comma: bool
    named: bool


@dataclass(frozen=True, eq=False)
class Element:
    """What is between two commas of a bracket."""

    parts: tuple["Word | Group", ...]

    @cached_property
    def key(self) -> tuple[str, ...]:
        return tuple(word.text for word in words_of(self.parts))


Part = Word | Group


def read_brackets(words: list[Word]) -> tuple[Part, ...]:
    """Return words with each bracket as one part. Raises Unclear where brackets do not match."""
    stack: list[list[Part]] = [[]]
    for word in words:
        stack[-1].append(word)
        if word.text in OPEN:
            stack.append([])
        elif word.text in CLOSE:
            if len(stack) < 2:
                raise Unclear
            inside = stack.pop()[:-1]
            opens = stack[-1].pop()
            assert isinstance(opens, Word)
            stack[-1].append(_bracket(opens, word, inside, stack[-1]))
    if len(stack) > 1:
        raise Unclear
    return tuple(stack[0])


def _bracket(opens: Word, closes: Word, inside: list[Part], before: list[Part]) -> Group:
    elements: list[list[Part]] = [[]]
    for part in inside:
        if isinstance(part, Word) and part.text == ",":
            elements.append([])
        else:
            elements[-1].append(part)
    comma = len(elements) > 1 and not elements[-1]
    imports = bool(before) and isinstance(before[-1], Word) and before[-1].text == "import"
    chosen = tuple(Element(tuple(x)) for x in elements if x)
    return Group(opens, closes, chosen, comma, opens.text == "{" or imports)


def words_of(parts: Sequence[Part]) -> list[Word]:
    words: list[Word] = []
    for part in parts:
        if isinstance(part, Word):
            words.append(part)
            continue
        words.append(part.opens)
        for i, element in enumerate(part.elements):
            words += words_of(element.parts)
            if i + 1 < len(part.elements) or part.comma:
                words.append(Word("", ","))
        words.append(part.closes)
    return words


def key_of(parts: Sequence[Part]) -> tuple[str, ...]:
    return tuple(word.text for word in words_of(parts))


def frame_of(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    """Return what is outside of brackets, and where these are."""
    return [(x.text,) if isinstance(x, Word) else (x.opens.text, x.closes.text, "") for x in parts]
