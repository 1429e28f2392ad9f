"""The mutants of a module: each is its source with one small mistake, as a tired programmer makes it.

What cannot be a mistake is left out, by three rules: `strict=` of zip says what holds; a number in a slice inside an f-string
is how much of a text a message shows; a number in a module of EXAMPLES is a colour or a size of pictures that are made up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

TURNED = {
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.LessThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.GreaterThan,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
}
EXAMPLES = ("pictures/drawings.py", "pictures/scenes.py")
OTHER = {"True": "False", "False": "True"}


@dataclass(frozen=True)
class Mutant:
    """A mistake in a file: `was`, its line, is now `now`, and so the whole is `source`."""

    path: str
    line: int
    was: str
    now: str
    nth: int  # of those of the file that read the same
    source: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is, wherever its line stands by now."""
        return self.path, self.was, self.now, self.nth


class Mistakes(cst.CSTVisitor):
    """Collects (place, what stands there instead) of a module."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, numbers: bool) -> None:
        self.numbers = numbers
        self.shown = 0  # f-strings that it is in
        self.all: list[tuple[CodeRange, str]] = []

    def _add(self, node: cst.CSTNode, instead: cst.CSTNode) -> None:
        code = cst.Module([]).code_for_node(instead).strip()
        self.all.append((self.get_metadata(PositionProvider, node), code))

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        return node.keyword is None or node.keyword.value != "strict"

    def visit_Decorator(self, node: cst.Decorator) -> bool:
        return False

    def _negate(self, test: cst.BaseExpression) -> None:
        # A comparison and a `not` are mistaken below.
        if not isinstance(test, cst.Comparison | cst.UnaryOperation):
            inner = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
            self._add(test, cst.UnaryOperation(cst.Not(), inner))

    def visit_If(self, node: cst.If) -> None:
        self._negate(node.test)
        body = node.body.body
        if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) and not node.orelse:
            (statement,) = body[0].body
            if isinstance(statement, cst.Return | cst.Raise | cst.Continue | cst.Break):
                self._add(statement, cst.Pass())

    def visit_While(self, node: cst.While) -> None:
        self._negate(node.test)

    def visit_IfExp(self, node: cst.IfExp) -> None:
        self._negate(node.test)

    def visit_CompIf(self, node: cst.CompIf) -> None:
        self._negate(node.test)

    def visit_ComparisonTarget(self, node: cst.ComparisonTarget) -> None:
        turned = TURNED.get(type(node.operator))
        if turned:
            self._add(node.operator, turned())

    def visit_BooleanOperation(self, node: cst.BooleanOperation) -> None:
        self._add(node.operator, cst.Or() if isinstance(node.operator, cst.And) else cst.And())

    def visit_UnaryOperation(self, node: cst.UnaryOperation) -> None:
        if isinstance(node.operator, cst.Not):
            self._add(node, node.expression)

    def visit_FormattedStringExpression(self, node: cst.FormattedStringExpression) -> None:
        self.shown += 1

    def leave_FormattedStringExpression(self, node: cst.FormattedStringExpression) -> None:
        self.shown -= 1

    def visit_Slice(self, node: cst.Slice) -> bool:
        return not self.shown

    def visit_Integer(self, node: cst.Integer) -> None:
        if self.numbers:
            self._add(node, cst.Integer(str(node.evaluated_value + 1)))

    def visit_Name(self, node: cst.Name) -> None:
        if node.value in OTHER:
            self._add(node, cst.Name(OTHER[node.value]))


def mutants(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    mistakes = Mistakes(numbers=not path.endswith(EXAMPLES))
    wrapper.visit(mistakes)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    made: list[Mutant] = []
    same: Counter[tuple[str, str]] = Counter()
    for place, instead in sorted(mistakes.all, key=lambda mistake: mistake[0].start.line):
        first, last = (starts[at.line - 1] + at.column for at in (place.start, place.end))
        mutated = source[:first] + instead + source[last:]
        line = place.start.line
        was, now = (text.splitlines()[line - 1].strip() for text in (source, mutated))
        same[was, now] += 1
        made.append(Mutant(path, line, was, now, same[was, now], mutated))
    return made
