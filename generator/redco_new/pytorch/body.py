"""The body of a __call__: statements as the class's author wrote them, of a merged program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from torch.utils import _pytree as pytree

from redco_new.pytorch.dims import unpack_dims
from redco_new.pytorch.dtypes import COMPUTE, cast
from redco_new.pytorch.expressions import fill, sequence, show
from redco_new.pytorch.loops import BEGIN, END, print_loop, print_scan, read_in_scans, scan_hints
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.merge import WRITES, Node
from redco_new.pytorch.scope import Reference
from redco_new.pytorch.statements import Statements
from redco_new.pytorch.values import NeedsName, steps_of_writes
from redco_new.pytorch.variables import (
    SHAPES,
    assign,
    count_values,
    hint_of,
    last_uses,
    may_be_inner,
    name_node,
    names_of_several,
    reads,
    return_last,
    safe_name,
    without_unread,
)
from redco_new.pytorch.sizes import Atom

# A longer expression is a statement of its own; a line has 100 characters.
LONGEST = 88


class Body(Statements):
    """Print a program as statements.

    atoms: what numbers can be made of, besides the dims of inputs
    inputs: the names of the program's inputs
    order: of these, whose dims come first
    casts: whether inputs are arrays of a batch, which are float32
    outer: of dims of the inputs of the whole, which it is given where none of its own sizes makes a number
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        atoms: Sequence[Atom],
        inputs: Sequence[str],
        batch: tuple[int, ...],
        reference: Reference,
        returned: Callable[[list[ast.expr]], ast.expr] | None = None,
        order: Sequence[int] | None = None,
        casts: bool = False,
        outer: Sequence[Atom] = (),
    ) -> None:
        self._nodes, self._batch = nodes, batch
        self._casts = casts
        self._inputs = [node for node in nodes if node.kind == "input"]
        self.names = [safe_name(name) for name in inputs]
        dims = [
            Atom(f"_dim_{i}_{d}", number.values)
            for i in order or range(len(self.names))
            for d, number in enumerate(self._inputs[i].dims or ())
            if self.names[i] != "attend"
        ]
        own = [atom for atom in atoms if atom.is_attribute]  # the author's names come first
        others = [atom for atom in atoms if not atom.is_attribute]
        super().__init__([*own, *dims, *others], reference, outer)
        self._written = steps_of_writes(nodes)
        self._returned = returned or (
            lambda items: items[0] if len(items) == 1 else sequence(items)
        )
        self._named: set[Node] = set()  # what needs a variable, since its shape is asked for
        self._dims: dict[Node, set[int]] = {}  # of these, dims that have names
        self._plain, self._lengths = self._atoms, dict[str, Atom]()
        self._functions: set[str] = set()  # of the runtime, which a variable would hide
        while True:
            try:
                self._print()
            except NeedsName as needed:
                self._named.add(needed.node)
                if needed.dim is not None:
                    self._dims.setdefault(needed.node, set()).add(needed.dim)
                continue
            functions = {line.rpartition(" ")[2] for line in self.imports}
            if functions & self._holders.keys() <= self._functions:
                break
            self._functions |= functions
        # The dims of the inputs of the whole that it is told; its own have other names as yet.
        self.sizes = tuple(x.text for x in outer if reads(self._statements, x.text))

    @property
    def read(self) -> set[str]:
        """The names of inputs that are read."""
        pairs = zip(self.names, self._inputs, strict=True)
        return {name for name, node in pairs if node.users}

    def lines(self) -> list[ast.stmt]:
        """Return the statements, the dims of inputs that they read first."""
        reserved = {*self._holders, *self.sizes, *self._lengths}
        shown = (self._inputs, self.names, self._batch, reserved)
        own = without_unread(self._statements, self._lengths)
        dims, statements = unpack_dims(own, *shown)
        return dims + return_last(statements)

    def _print(self) -> None:
        self._env = dict(zip(self._inputs, map(name_node, self.names), strict=True))
        self._statements: list[ast.stmt] = []
        self._measurable, self._lengths, self._atoms = [], {}, self._plain
        self._hints = names_of_several(self._nodes)
        self._last = last_uses(self._nodes)
        self._named |= read_in_scans(self._nodes, self._last)
        self._outside: list[list[ast.stmt]] = []  # statements before the scan whose step is printed
        self._holders: dict[str, Node] = dict(zip(self.names, self._inputs, strict=True))
        for place, node in enumerate(self._nodes):
            if node.kind == "output":
                items = [self.value(x) for x in pytree.tree_leaves(node.arguments)]
                self._statements.append(ast.Return(self._returned(items)))
            elif node.kind == "input" and self._casts and node.dtype == COMPUTE:
                self._cast_input(node)
            elif node.kind == "layers":
                self._layers(place, node)
            elif node.target == BEGIN:
                self._begin(place, node)
            elif node.target == END:
                self._end(place, node)
            elif node.target == WRITES:
                self.write(place, node)
            elif node.kind not in ("input", "parameter") and node not in self._env and node.users:
                self._step(place, node)

    def _step(self, place: int, node: Node) -> None:
        """Print one step: within the expression of its reader, or as a statement."""
        expression = self.expression(node)
        items = [user for user in node.users if user.kind == "item"]
        if len(items) == len(node.users) and items:
            self._unpack(place, node, expression, items)
        elif self._is_inner(node, expression):
            self._env[node] = expression
        else:
            hint = self._hints.get(node) or self._name_of_base(node) or hint_of(node)
            name = self.variable(place, node, hint)
            self._statements.append(assign(name_node(name), expression))
            self._env[node] = name_node(name)
        if not items and not self._outside:
            self.name_dims(node)
            self._measurable.append(node)

    def _name_of_base(self, node: Node) -> str:
        """Return the name of the variable of which a step makes another shape, where its author gives it none; else ""."""
        base = node.arguments.get("self") if node.kind == "operation" else None
        if len(node.statement.names) == 1 or not isinstance(base, Node):
            return ""
        variable = self._env.get(base) if node.target.partition(".")[0] in SHAPES else None
        return variable.id if isinstance(variable, ast.Name) else ""

    def _cast_input(self, node: Node) -> None:
        """Print the cast of an array of the batch, where it is not a layer that reads it, which casts it."""
        leaf = self._reference.leaf
        if not all(user.kind == "module" and leaf(user.target) for user in node.users):
            name = self._env[node]
            self._statements.append(assign(name, cast(name, self.value(COMPUTE))))

    def _layers(self, place: int, node: Node) -> None:
        """Print the calls of all layers of a list: a loop, or over_layers where they are stacked."""
        carry = self.value(node.arguments["carry"])
        arguments = {key: self.value(x) for key, x in node.arguments["others"].items()}
        # What all layers read keeps its name.
        read = [x.id for y in arguments.values() for x in ast.walk(y) if isinstance(x, ast.Name)]
        name = self.variable(place, node, hint_of(node), tuple(read))
        one = node.target.rpartition(".")[2].removesuffix("s")
        names = [safe_name(x) for x in (one, "layer", "block") if x.isidentifier()]
        one = next(x for x in names if x not in self._holders)
        order = self._reference.order(f"{node.target}.0")
        arguments[node.arguments["place"]] = name_node(name)
        values = [arguments[key] for key in sorted(arguments, key=int)]
        sizes = self.sizes_of(f"{node.target}.0")
        call = ast.Call(name_node(one), [*(values[i] for i in order), *sizes], [])
        attend = any(x.id == "attend" for x in values if isinstance(x, ast.Name))
        stacked = self._reference.module(node.target), self._reference.layers(node.target)
        if stacked[1] is not None and not attend:
            self.use("from redco_runtime.nn.layers import over_layers")
        self._statements += print_loop(*stacked, one, name, carry, call, attend)
        self._env[node] = name_node(name)

    def _begin(self, place: int, node: Node) -> None:
        """Start the step of a scan: the states and the rows that it is given have names."""
        self._outside.append(self._statements)
        self._statements, states = [], len(node.arguments["0"])
        hints = scan_hints(node)
        names = self._items(place, node, hints)
        self._before = names[:states], names[states:]
        self._starts = [[self.value(x) for x in node.arguments[key]] for key in ("0", "1")]

    def _end(self, place: int, node: Node) -> None:
        """Print the step of a scan, and the scan."""
        begin, states, results = node.arguments.values()
        step = [self.value(x) for x in states], [self.value(x) for x in results]
        body, self._statements = self._statements, self._outside.pop()
        names = self._items(place, node, [hint_of(x) for x in (*states, *results)])
        after = names[: len(states)], names[len(states) :]
        name = self.variable(place, begin, "step")
        count = self.value(begin.arguments["2"]) if not self._before[1] else ast.Constant(None)
        inputs = self._starts[0], self._starts[1], count
        self._statements += print_scan(name, self._before, body, step, inputs, after)

    def _items(self, place: int, node: Node, hints: Sequence[str]) -> list[str]:
        """Return names of what a mark of a scan gives; "_" where nobody reads it."""
        items = {int(x.arguments["1"].values[0]): x for x in node.users if x.kind == "item"}
        names: list[str] = []
        for i, hint in enumerate(hints):
            item = items.get(i)
            if item is None or not item.users:
                names.append("_")
                continue
            names.append(self.variable(place, item, hint, tuple(names)))
            self._env[item] = name_node(names[-1])
        return names

    def _unpack(self, place: int, node: Node, expression: ast.expr, items: list[Node]) -> None:
        """Print what gives several arrays: each that is read has a name."""
        index = {user: int(user.arguments["1"].values[0]) for user in items}
        if len(set(index.values())) == 1 and not isinstance(expression, ast.Tuple):
            for user in items:
                self._env[user] = fill("x[i]", x=expression, i=ast.Constant(index[user]))
            if len(items) == 1 and len(items[0].users) > 1:  # computed once
                name = self.variable(place, items[0], hint_of(items[0], hint_of(node)))
                self._statements.append(assign(name_node(name), self._env[items[0]]))
                self._env[items[0]] = name_node(name)
            if len(items) == 1:
                return
        if node.kind == "operation" and len(node.statement.names) == 1:  # its author has one name
            last = max(items, key=lambda user: self._last.get(user, 0))
            name = self.variable(place, last, node.statement.names[0])
            self._statements.append(assign(name_node(name), expression))
            for user in items:
                self._env[user] = fill("x[i]", x=name_node(name), i=ast.Constant(index[user]))
                self._last[user] = self._last.get(last, 0)
            return
        leaf = LEAVES.get(type(self.layer(node)))
        count = count_values(expression, leaf.gives if leaf else max(index.values()) + 1)
        # A part of the class gives them in an order of the exported program, not that of its author's `return`.
        of_part = node.kind == "module"
        named = self._reference.outputs(node.target) if of_part else node.statement.names
        author = tuple(named) if len(named) == count else ()
        left = [x for x in node.statement.names if x not in (*author, "_")] if "" in author else []
        names: list[str] = []
        for i in range(count):
            readers = [user for user in items if index[user] == i]
            if not readers:
                names.append("_")
                continue
            hint = author[i] if author else ""
            hint = hint or (left[0] if len(left) == 1 else "")
            hint = hint or hint_of(readers[0], f"{hint_of(node)}_{i}")
            name = self.variable(place, readers[0], hint, tuple(names))
            names.append(name)
            for user in readers:
                self._env[user] = name_node(name)
                self._last[user] = max(self._last.get(reader, 0) for reader in readers)
            self._holders[name] = max(readers, key=lambda user: self._last.get(user, 0))
        self._statements.append(assign(sequence([name_node(name) for name in names]), expression))

    def _is_inner(self, node: Node, expression: ast.expr) -> bool:
        """Return whether a step is printed where it is read: by the statement that it is of."""
        if node in self._named or len(node.users) != 1 or isinstance(expression, ast.Tuple):
            return False
        short = len(show(expression)) <= LONGEST or node.users[0].kind == "output"
        return short and may_be_inner(node)  # as last_uses has it: what it reads keeps its name
