"""What a piece of code says, whatever its layout: its syntax tree, its comments, its numbers."""

import ast
import io
import tokenize
from collections.abc import Hashable, Iterable
from tokenize import TokenInfo

# The words of a line, which no formatter adds or removes: they tell where a comment stands.
WORDS = {tokenize.NAME, tokenize.NUMBER, tokenize.STRING}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def tokens_of(text: str) -> list[TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def parse(text: str) -> ast.Module:
    """The syntax tree of `text`, its docstrings without their layout. Raises SyntaxError."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and is_docstring(node.body[:1]):
            node.body[0].value.value = without_layout(node.body[0].value.value)
    return tree


def is_docstring(nodes: list[ast.stmt]) -> bool:
    match nodes:
        case [ast.Expr(value=ast.Constant(value=str()))]:
            return True
    return False


def without_layout(docstring: str) -> str:
    return "\n".join(line.strip() for line in docstring.strip().splitlines())


def fingerprint(nodes: Iterable[ast.AST], tokens: Iterable[TokenInfo]) -> Hashable:
    """Equal for two pieces of code that differ in layout only.

    A comment counts with its place among the words, and a number with its spelling.
    """
    comments, numbers, words = [], [], 0
    for token in tokens:
        words += token.type in WORDS
        if token.type == tokenize.COMMENT:
            comments.append((words, comment_text(token.string)))
        elif token.type == tokenize.NUMBER:
            numbers.append(token.string.lower())
    return tuple(ast.dump(node) for node in nodes), tuple(comments), tuple(numbers)


def comment_text(line: str) -> str:
    """What a comment says: "#x", "# x " and "    # x" say the same."""
    return line.strip().removeprefix("#").strip()
