"""A program in another form: its merged dims stay apart, its scaled products are added up first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from . import merged  # noqa: F401 (for its rules)
from .forms import evaluate, in_form, whole_array
from .sums import add_products_first

Tree = Any  # of arrays


class Rewritten:
    """How a program is computed whose layout gains by a form of its own."""

    def whole(self, stored: Tree) -> Tree:
        """Return parameters in their own shapes."""
        return stored

    def in_form(self, stored: Tree) -> Tree:
        """Return parameters in the form that they are stored in."""
        return stored

    def rewrite(self, program: Jaxpr) -> Jaxpr:
        """Return the program to compute."""
        return add_products_first(program)

    def compute(self, program: ClosedJaxpr, *arguments: Tree) -> list[jax.Array]:
        """Return the outputs of a program, of arguments of which some may be in a form."""
        inputs: Sequence[Any] = jax.tree.leaves(arguments, is_leaf=in_form)
        return [*map(whole_array, evaluate(program.jaxpr, program.consts, inputs))]
