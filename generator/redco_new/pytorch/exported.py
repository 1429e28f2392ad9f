"""What torch.export makes of a call of a class, or why it makes nothing of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import fx, nn
from torch._export.utils import _is_preservable_cia_op, _special_op_to_preserve_cia
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorDeviceMismatchError
from torch.export import _trace, exported_program
from torch.export.graph_signature import OutputKind
from torch.nn.modules.module import register_module_buffer_registration_hook

from redco_plan import error_message
from redco_new.errors import RedcoError
from redco_new.pytorch.memory import forgets, place_of_write, writes_buffers
from redco_new.pytorch.one_device import on_meta
from redco_new.pytorch.outputs import takes_dataclasses_apart
from redco_new.pytorch.own_backward import by_forward
from redco_new.pytorch.refusal import place_of, refuse
from redco_new.pytorch.selections import compute_all_rows

BUFFERS = "make that a buffer, by register_buffer, and write it by copy_, lerp_ or the like"

# What PyTorch says of a tensor that is no buffer; a cache of it is of no use in training.
CONSTANT = re.compile(r"Constant (\S+) is mutated in the forward method")
WRITTEN = "call it without a cache, and read what was computed instead"

# A program that is not printed has no lines of the class: to find these takes a tenth of the time.
without_places = partial(patch.object, fx.config, "do_not_emit_stack_traces", True)
# What PyTorch says of a class -> what it does, and what to do.
KNOWN = {
    ".numpy()": ("it computes with NumPy", "call functions of torch there"),
    "PackedSequence": (
        "pack_padded_sequence packs by values of lengths",
        "call the layer on padded texts, and leave out by a mask what comes after each",
    ),
}


def export(
    module: nn.Module, inputs: Mapping[str, Any]
) -> tuple[torch.export.ExportedProgram, bool]:
    """Return what torch.export makes of a call, and whether it is of all rows where masks select some, which are written where they are from."""
    cause: Exception | None = None
    try:
        exported = _export(module, inputs)
        if not _follows_values(exported):
            return exported, False
    except Exception as error:  # whatever the class's own code raises
        if not _is_of_values(error):
            raise
        cause = error
    every = compute_all_rows(partial(_export, module, inputs))
    if every is not None and not _follows_values(every):
        return every, True
    if cause is not None:
        raise cause
    return exported, False


def _follows_values(exported: torch.export.ExportedProgram) -> bool:
    """Return whether a program has an array whose shape follows from values."""
    arrays = (node.meta.get("val") for node in exported.graph.nodes)
    return any(
        not isinstance(size, int) for x in arrays if isinstance(x, torch.Tensor) for size in x.shape
    )


def _is_of_values(error: Exception) -> bool:
    """Return whether a class branches on a value."""
    return "data-dependent" in str(error).lower() or "DataDependent" in type(error).__name__


def _export(module: nn.Module, inputs: Mapping[str, Any]) -> torch.export.ExportedProgram:
    """Return what torch.export makes of a call; where its new arrays lie apart from its inputs, on the device of these."""
    hook = patch.object(_trace, "register_buffer_assignment_hook", keeps_no_buffers)
    with hook, writes_buffers(), takes_dataclasses_apart(), by_forward():
        try:
            with forgets(module):
                return torch.export.export(module, (), dict(inputs), strict=False)
        except FakeTensorDeviceMismatchError:
            with forgets(module), on_meta():
                return torch.export.export(module, (), dict(inputs), strict=False)


def keeps_no_buffers(*_: Any) -> Any:
    """Return a hook of buffers that are assigned which does nothing: PyTorch's own writes them after the call."""
    return register_module_buffer_registration_hook(lambda *_: None)


def make_functional(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program that writes nothing in place, with its composite operations whole.

    As `run_decompositions({})` does, which registers all that PyTorch has, the program's or not, each time: a tenth of
    a second, ten times a class.
    """
    parts = (x for x in program.graph_module.modules() if isinstance(x, fx.GraphModule))
    targets = {node.target for part in parts for node in part.graph.nodes}
    operations = (x for x in targets if isinstance(x, OpOverload) and _is_preservable_cia_op(x))
    whole = dict.fromkeys(operations, _special_op_to_preserve_cia)
    split = "_split_decomp_table_to_cia_and_python_decomp"
    with patch.object(exported_program, split, lambda table: (whole, table)):
        return program.run_decompositions({})


def refuse_writes(
    exported: torch.export.ExportedProgram, functional: torch.export.ExportedProgram
) -> None:
    """Raise RedcoError for a call that writes a parameter, which a step of ours does alone. functional: the same program, without writes"""
    names = {path: name for name, path in exported.graph_signature.inputs_to_parameters.items()}
    for spec in functional.graph_signature.output_specs:
        if spec.kind is OutputKind.PARAMETER_MUTATION:
            (node,) = (node for node in exported.graph.nodes if node.name == names[spec.target])
            writes = (user for user in node.users if _may_write(user))
            stacks = (x.meta.get("stack_trace") for user in writes for x in (user, *user.users))
            raise refuse(place_of(*stacks), f"it writes its parameter {spec.target}", BUFFERS)


def _may_write(node: fx.Node) -> bool:
    """Return whether a step writes what it reads, or has a program of its own, as those under `no_grad` have."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def export_failure(module: nn.Module, error: Exception) -> RedcoError:
    """Return the refusal of a class that torch.export does not take, with the class's line."""
    import traceback

    stack = "".join(traceback.format_tb(error.__traceback__))
    # PyTorch's own, wherever it is installed, and ours.
    others = (str(Path(torch.__file__).parent), "redco_new")
    own = [line for line in stack.splitlines() if not any(x in line for x in others)]
    where = place_of("\n".join(own)) or type(module).__name__
    text = error_message(error)
    if _is_of_values(error):
        return refuse(where, "it branches on a value of a tensor", "use torch.where")
    if "fake tensor in the exported program constant" in text:  # and asks for an issue
        return refuse(
            where, "what it computes is put in the place of a tensor that it holds", BUFFERS
        )
    if written := CONSTANT.search(text):
        what = f"it writes into its tensor {written[1]}"
        return refuse(place_of_write(module, written[1]) or where, what, WRITTEN)
    for said, (what, todo) in KNOWN.items():
        if said in text:
            return refuse(where, what, todo)
    return refuse(
        where, f"PyTorch cannot export it: {text}", "mend that line, or write it by others"
    )
