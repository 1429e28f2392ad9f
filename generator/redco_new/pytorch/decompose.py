"""Operations that no rule prints, as others that PyTorch makes them of: losses, norms and distances, for instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from torch import fx
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.export import ExportedProgram, default_decompositions

from redco_new.pytorch import layer_rules, place_rules  # noqa: F401 - their rules register
from redco_new.pytorch.exported import make_functional
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.operators import RULES
from redco_new.pytorch.rules import FUNCTIONS

ROUNDS = 6  # a loss is made of another one, and that of a logarithm
# What graph.py, attention.py and body.py print, or take out; a mask that selects rows has no shape.
OTHERS = {
    "_assert_scalar", "_assert_tensor_metadata", "_native_batch_norm_legit_functional", "alias", "clone", "contiguous",
    "copy", "copy_", "detach", "detach_", "dropout", "lift_fresh", "lift_fresh_copy", "masked_select", "native_dropout",
    "nonzero", "normal_functional", "scaled_dot_product_attention", "sym_constrain_range_for_size", "uniform",
}  # fmt: skip
LAYERS = {f"{cls.__module__}.{cls.__qualname__}" for cls in LEAVES}


def decompose(exported: ExportedProgram) -> ExportedProgram:
    """Return a program, functional, in which operations that no rule prints are those that PyTorch makes them of, where these all have rules.

    One that PyTorch makes of no others stays: drop_path.py may know it, or it is refused by name.
    """
    operations = frozenset(node.target for node in exported.graph.nodes)
    table = dict(_TABLES.get(operations, {}))
    program = exported.run_decompositions(table) if table else make_functional(exported)
    strangers = _strangers(program)
    left = strangers - _table(strangers).keys()
    before: object = None
    for _ in range(ROUNDS):
        strangers = _strangers(program) - left
        if not strangers:
            _TABLES[operations] = table
            return program
        more = _table(strangers)
        now = (strangers, len(program.graph.nodes))
        if now == before or len(more) < len(strangers):  # some are made of themselves
            break
        before = now
        table |= more
        program = program.run_decompositions(more)
    return make_functional(exported) if _strangers(program) - left else program


def place_views(program: ExportedProgram) -> None:
    """Put an operation of which PyTorch says no part, as a view of what was written in place, in the part of its array. The program is changed in place."""
    for node in program.graph.nodes:
        if node.op == "call_function" and not node.meta.get("nn_module_stack"):
            for key in ("nn_module_stack", "stack_trace"):
                stacks = (x.meta.get(key) for x in (*node.all_input_nodes, *program.graph.nodes))
                node.meta[key] = next(filter(None, stacks), None)


def _strangers(program: ExportedProgram) -> set[OpOverload]:
    """Return the operations that no rule prints, of what is no layer of Flax."""
    return {
        node.target
        for node in program.graph.nodes
        if isinstance(node.target, OpOverload)
        and node.target.namespace == "aten"
        and _name(node.target) not in RULES.keys() | FUNCTIONS.keys() | OTHERS
        and not _is_of_layer(node)
    }


def _name(operation: OpOverload) -> str:
    return str(operation).split(".")[1]


def _is_of_layer(node: fx.Node) -> bool:
    stack: dict[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    return any(str(cls) in LAYERS for _, cls in stack.values())


def _table(operations: set[OpOverload]) -> dict[OpOverload, Callable[..., Any]]:
    every = _every()
    return {
        operation: every[operation] if operation in every else decomposition_table[operation]
        for operation in operations
        if operation in every or operation in decomposition_table
    }


# The operations of a program -> what those of its last round were made by: a class is traced with many sizes, and each
# round takes as long as the trace.
_TABLES: dict[frozenset[Any], Mapping[OpOverload, Callable[..., Any]]] = {}
_every = cache(default_decompositions)  # which is made anew each time it is asked for
