"""A file of a user's, parsed: what each name in it is, by its imports, and where it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    ByteSpanPositionProvider,
    ExpressionContext,
    ExpressionContextProvider,
    ImportAssignment,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameProvider,
    QualifiedNameSource,
    ScopeProvider,
)
from libcst.metadata.scope_provider import Scope

Chain = cst.Name | cst.Attribute
AnyImport = cst.Import | cst.ImportFrom


class Unreadable(ValueError):
    """libcst does not give the text back as it is: the file is not touched."""


class Source:
    """A parsed file.

    text: as it is on disk, decoded.
    module_name: dotted, as others import it.
    identifiers: the names in it that are bound or read; those of attributes and keywords are neither.
    strings: all texts in it that are whole: a name among them may be meant by getattr or __all__.
    """

    def __init__(self, text: str, module_name: str, is_package: bool) -> None:
        try:
            module = cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            raise Unreadable(str(error)) from error
        if module.code != text:
            raise Unreadable("libcst drops text of it")
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self.text, self.module_name = text, module_name
        self._folder = module_name.split(".") if is_package else module_name.split(".")[:-1]
        self.module = wrapper.module
        self._names = wrapper.resolve(QualifiedNameProvider)
        self._scopes = wrapper.resolve(ScopeProvider)
        self._spans = wrapper.resolve(ByteSpanPositionProvider)
        self._positions = wrapper.resolve(PositionProvider)
        self._contexts = wrapper.resolve(ExpressionContextProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)
        self.nodes = list(_walk(self.module))
        self.identifiers = {
            x.value for x in self.nodes if isinstance(x, cst.Name) and self._binds(x)
        }
        self.strings = {
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }

    def full_name(self, node: cst.CSTNode) -> str | None:
        """Return what a chain of names is for sure, by its imports; None for anything else."""
        if (
            not isinstance(node, Chain)
            or get_full_name_for_node(node) is None
            or not _is_chain(node)
        ):
            return None
        names: Any = self._names.get(node, ())
        names = names() if callable(names) else names
        if len(names) != 1:
            return None
        (name,) = names
        return self._absolute(name.name) if name.source is QualifiedNameSource.IMPORT else None

    def could_be(self, node: cst.CSTNode, full_name: str) -> bool:
        """Tell whether a chain of names may be that, among others."""
        names: Any = self._names.get(node, ())
        names = names() if callable(names) else names
        return any(
            name.source is QualifiedNameSource.IMPORT and self._absolute(name.name) == full_name
            for name in names
        )

    def references(self, full_name: str) -> Iterator[Chain]:
        """Yield the chains of names that are read as that for sure; those in imports are none."""
        for node in self.nodes:
            if isinstance(node, Chain) and self.full_name(node) == full_name and self.is_read(node):
                yield node

    def is_read(self, node: cst.CSTNode) -> bool:
        """Tell whether a chain of names is read, and not stored to or deleted."""
        return self._contexts.get(node) is ExpressionContext.LOAD

    def imports(self) -> Iterator[tuple[AnyImport, cst.ImportAlias, str]]:
        """Yield (statement, alias, full name of what it imports); of stars nothing."""
        for node in self.nodes:
            if not isinstance(node, AnyImport) or isinstance(node.names, cst.ImportStar):
                continue
            prefix = f"{self.imported_module(node)}." if isinstance(node, cst.ImportFrom) else ""
            for alias in node.names:
                yield node, alias, prefix + alias.evaluated_name

    def imported_module(self, node: cst.ImportFrom) -> str:
        """Return the full name of the module that a `from` imports from."""
        name = (get_full_name_for_node(node.module) if node.module else None) or ""
        return self._absolute("." * len(node.relative) + name)

    def import_of(self, node: Chain) -> cst.CSTNode | None:
        """Return the statement that binds the first name of a chain, if there is one alone."""
        root: cst.BaseExpression = node
        while isinstance(root, cst.Attribute):
            root = root.value
        scope = self.scope(node)
        name = root.value if isinstance(root, cst.Name) else ""
        chain = get_full_name_for_node(node) or ""
        candidates = {
            assignment
            for assignment in scope[name]
            if isinstance(assignment, ImportAssignment)
            and (assignment.name == name or chain.startswith(f"{assignment.name}."))
        }
        return next(iter(candidates)).node if len(candidates) == 1 else None

    def count_uses(self, name: str) -> int:
        """Return how often what imports call `name` is used, throughout the file."""
        scopes = {scope for scope in self._scopes.values() if scope is not None}
        return sum(
            len(assignment.references)
            for scope in scopes
            for assignment in scope.assignments
            if isinstance(assignment, ImportAssignment) and assignment.name == name
        )

    def scope(self, node: cst.CSTNode) -> Scope:
        """Return the scope that a node is in."""
        scope = self._scopes.get(node)
        return scope if scope is not None else self._scopes[self.module]  # type: ignore[return-value]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return (start, end) of a node, in bytes of the text in UTF-8."""
        span = self._spans[node]
        return span.start, span.start + span.length

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text.encode()[start:end].decode()

    def line(self, node: cst.CSTNode) -> int:
        """Return the line that a node begins in, from 1."""
        return int(self._positions[node].start.line)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the node that holds another."""
        return self._parents[node]

    def _binds(self, node: cst.Name) -> bool:
        parent = self._parents[node]
        is_attribute = isinstance(parent, cst.Attribute) and parent.attr is node
        return not is_attribute and not (isinstance(parent, cst.Arg) and parent.keyword is node)

    def _absolute(self, name: str) -> str:
        """Return a dotted name without the dots of a relative import."""
        dots = len(name) - len(name.lstrip("."))
        if not dots:
            return name
        return ".".join([*self._folder[: len(self._folder) - dots + 1], name[dots:]]).rstrip(".")


def _is_chain(node: cst.CSTNode) -> bool:
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _walk(child)
