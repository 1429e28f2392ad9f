"""Whether a class computes the same as a way makes it, in PyTorch: with our attention and our experts in it, or its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch.utils import _pytree as pytree

from redco_new.own.call import Call
from redco_new.pytorch.construct import construct
from redco_new.pytorch.gate import MOST, error_of, examples, randomize
from redco_new.pytorch.setting import TORCH, Setting
from redco_new.pytorch.refusal import Differs
from redco_new.pytorch.subject import Subject, Way
from redco_new.pytorch.transformers_classes import IDS


def check_alike(where: str, subject: Subject, way: Way, small: Setting) -> None:
    """Raise Differs where a class as a way makes it gives other outputs than as its users have it.

    It is asked before anything is printed, which takes a hundred times as long.
    """
    if way.make is subject.make_plain:
        return
    theirs = construct(lambda: subject.make_plain(small.arguments), "cpu").module.eval()
    ours = construct(lambda: way.make(small.arguments), "cpu").module.eval()
    randomize(theirs)
    ours.load_state_dict(theirs.state_dict())
    arrays = examples(theirs, small, {IDS} if way.texts else way.call.inputs)
    outputs = [
        _outputs(module, call, arrays)
        for module, call in ((theirs, way.plain_call), (ours, way.call))
    ]
    error = max(error_of(a, b) for a, b in zip(*reversed(outputs), strict=True))
    if not error <= MOST:
        what = f"with our attention its outputs differ from its own by {error:.1e} of the largest"
        raise Differs(where, what, "print it with its own")


def _outputs(
    module: torch.nn.Module, call: Call, arrays: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Return what a module gives for a batch."""
    tensors = {
        name: torch.from_numpy(x.astype(TORCH.get(str(x.dtype), x.dtype)))
        for name, x in arrays.items()
    }
    with torch.no_grad():
        result = module(**call.fill(tensors))
    return [x.numpy() for x in pytree.tree_leaves(result) if torch.is_tensor(x)]
