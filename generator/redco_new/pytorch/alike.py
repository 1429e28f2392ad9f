"""Whether a class computes the same as a way makes it, in PyTorch: with our attention and our experts in it, or its own."""

from __future__ import annotations

import torch

from redco_new.pytorch.construct import construct
from redco_new.pytorch.gate import MOST, call_torch, error_of
from redco_new.pytorch.gate_examples import examples, randomize
from redco_new.pytorch.refusal import Differs
from redco_new.pytorch.setting import Setting
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
    with torch.no_grad():
        plain = call_torch(theirs, arrays, way.plain_call)
        outputs = call_torch(ours, arrays, way.call)
    pairs = zip(outputs, plain, strict=True)
    error = max(error_of(a.numpy(), b.numpy()) for a, b in pairs)
    if not error <= MOST:
        what = f"with our attention its outputs differ from its own by {error:.1e} of the largest"
        raise Differs(where, what, "print it with its own")
