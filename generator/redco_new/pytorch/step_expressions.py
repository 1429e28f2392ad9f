"""A step of a program as an expression: an item, a call of a part, an operation by its rule."""

from __future__ import annotations

import ast
from typing import Any

from redco_new.pytorch.dtypes import cast, dtype_of_result
from redco_new.pytorch.expressions import fill, names_in
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.merge import Default, Node
from redco_new.pytorch.operators import RULES, SILENT, text_for
from redco_new.pytorch.refusal import UNRULED, UNSERVED, Unsaid, refuse
from redco_new.pytorch.rules import FUNCTIONS
from redco_new.pytorch import layer_rules, place_rules  # noqa: F401 - their rules register
from redco_new.pytorch.sizes import Number
from redco_new.pytorch.values import Values
from redco_new.pytorch.variables import is_neutral

BY_OTHERS = "write it by others"
# What computes otherwise in evaluation, by a flag that is no part's -> what it is, and what to do.
UNLIKE_ITSELF = {
    "_native_batch_norm_legit_functional": (
        "it calls F.batch_norm beside nn.BatchNorm",
        "hold an nn.BatchNorm there and call it: train() and eval() tell that what to do",
    ),
}


class Expressions(Values):
    """Print each step alone, of values that have their Python already."""

    _said_dtype = False  # whether the text of a step's rule says the dtype that it gives

    def expression(self, node: Node) -> ast.expr:
        """Return what a step gives, as Python, in its dtype. Raises RedcoError, with its place."""
        self._for_write = node in self._written
        try:
            expression = self._of_step(node)
        except Unsaid as error:
            where = node.place if error.where == "--model" else error.where
            raise Unsaid(where or error.where, error.what, error.values, error.name) from error
        except UNSERVED as error:
            raise refuse(node.place, f"{node.target}: {UNRULED}") from error
        finally:
            self._for_write = False
        result = dtype_of_result(node, self.layer(node), self._said_dtype)
        return expression if result is None else cast(expression, self.value(node.dtype))

    def layer(self, node: Node) -> Any:
        """Return the layer of torch.nn that a step calls, or None."""
        return self._reference.leaf(node.target) if node.kind == "module" else None

    def _of_step(self, node: Node) -> ast.expr:
        self._said_dtype = False
        if node.kind == "item":
            return fill(
                "x[i]", x=self.value(node.arguments["0"]), i=self.value(node.arguments["1"])
            )
        if node.kind == "module":
            arguments = [self.value(x) for x in node.arguments.values()]
            leaf = LEAVES.get(type(self.layer(node)))
            if not (leaf and leaf.gives > 1):  # which has its own order (results.py)
                arguments = [arguments[i] for i in self._reference.order(node.target)]
            arguments += self.sizes_of(node.target)
            return ast.Call(self._reference.module(node.target), arguments, [])
        name = node.target.partition(".")[0]
        if is_neutral(name, node):
            return self.value(node.arguments["self"])
        if name == "native_dropout":
            return ast.Call(
                self.drop(node.arguments["p"]), [self.value(node.arguments["input"])], []
            )
        if name in FUNCTIONS:
            try:
                return FUNCTIONS[name](self, node.arguments, node)
            except NotImplementedError as limit:
                raise refuse(node.place, f"{name} with {limit} has no rule") from limit
        if name not in RULES:
            raise refuse(
                node.place, *UNLIKE_ITSELF.get(name, (f"{node.target} has no rule", BY_OTHERS))
            )
        return self._by_text(name, node)

    def sizes_of(self, target: str) -> list[ast.expr]:
        """Return the sizes that a part is told, as Python."""
        return [self.value(Number(atom.values)) for atom in self._reference.sizes(target)]

    def _by_text(self, name: str, node: Node) -> ast.expr:
        """Return a rule of the table, filled: the first text that has all arguments that are not defaults."""
        said = {key for key, x in node.arguments.items() if not isinstance(x, Default)} - SILENT
        said = {key for key in said if node.arguments[key] is not None}
        if not (text := text_for(name, said)):
            rest = ", ".join(sorted(said))
            raise refuse(node.place, f"{name} with {rest} has no rule", "write it by others")
        names = names_in(text)
        self._said_dtype = "dtype" in names
        return fill(
            text,
            **{k: self.value(_single(k, node.arguments[k])) for k in names & node.arguments.keys()},
        )


def _single(key: str, x: Any) -> Any:
    """Return the one dim of a list of one, which reads better."""
    return x[0] if key == "dim" and isinstance(x, list) and len(x) == 1 else x
