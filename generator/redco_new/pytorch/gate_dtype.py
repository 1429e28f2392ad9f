"""The printed model in bfloat16, against PyTorch's own error there: a cast that lacks, or is too much, makes ours larger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import nn

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.pytorch.dtypes import COMPUTE
from redco_new.pytorch.gate import NOISE, Pair, printed_arrays, run_printed, run_torch
from redco_new.pytorch.weights import stack

# Drawings of weights: a cast that lacks shows in each, and in one of some a sum that is small by chance.
DRAWS = 3
# Both round in other places: of a sum that one of them keeps in float32, of a product that a kernel adds up in bfloat16.
TIMES = 2
ROUNDING = 2**-8  # of one value, at most: of few values PyTorch's error may be less by chance


def compare_rounded(
    where: str,
    pairs: Iterable[Pair],
    like: nn.Module,
    arrays: Mapping[str, np.ndarray],
    call: Call,
    names: Mapping[str, str],
) -> float:
    """Return how many times PyTorch's error in bfloat16 the printed model's is, at best. Raises RedcoError where it is too large.

    pairs: the class in float32, with one drawing of weights or another, and as printed, which computes in bfloat16
    like: the class as it is made in bfloat16, on the meta device
    arrays, names: as gate.compare has them
    """
    faults = list[RedcoError]()
    for pair in pairs:
        pair.bring_weights()
        try:
            return _compare(where, pair, like, arrays, call, names)
        except RedcoError as error:
            faults.append(error)
    raise faults[-1]


def _compare(
    where: str,
    pair: Pair,
    like: nn.Module,
    arrays: Mapping[str, np.ndarray],
    call: Call,
    names: Mapping[str, str],
) -> float:
    own = printed_arrays(arrays, names)
    outputs, grads = run_printed(pair.printed, own, False)
    exact, of_exact = run_torch(pair.torch, arrays, call, False)
    wanted = {path: stack(of_exact, pair.parameters[path], x.shape) for path, x in grads.items()}
    try:
        with _in_dtypes_of(pair.torch, like):
            theirs, of_theirs = run_torch(pair.torch, arrays, call, False, COMPUTE)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise RedcoError(where, f"PyTorch: {str(error).splitlines()[0]}", "") from error
    rounded = {path: stack(of_theirs, pair.parameters[path], x.shape) for path, x in wanted.items()}
    errors = {
        "outputs": [_error(x, exact) for x in (outputs, theirs)],
        "gradients": [
            _error([x[path] for path in wanted], [*wanted.values()]) for x in (grads, rounded)
        ],
    }
    for what, (ours, allowed) in errors.items():
        if not ours <= TIMES * max(allowed, ROUNDING):
            text = (
                f"{what} in bfloat16 are {ours:.1e} from those in float32, PyTorch's {allowed:.1e}"
            )
            raise RedcoError(where, text, "")
    return max(ours / max(allowed, ROUNDING) for ours, allowed in errors.values())


@contextmanager
def _in_dtypes_of(module: nn.Module, like: Any) -> Iterator[None]:
    """Turn the arrays of a module into the dtypes of another one's: a copy of it would call its parts, where a function of it has them."""
    whole = {id(x): (x, x.data) for x in module.parameters()}
    buffers = [(part, dict(part._buffers)) for part in module.modules()]
    for part, own in zip(module.modules(), like.modules(), strict=True):
        for name, parameter in part._parameters.items():
            if parameter is not None:
                parameter.data = parameter.data.to(own._parameters[name].dtype)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = buffer.to(own._buffers[name].dtype)
    try:
        yield
    finally:
        module.zero_grad()
        for parameter, data in whole.values():
            parameter.data = data
        for part, former in buffers:
            part._buffers |= former


def _error(arrays: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """Return the mean, over arrays, of the norm of the difference over the norm; NaN is infinitely far."""
    norms = [float(np.linalg.norm(x)) for x in wanted]
    least = NOISE * max(norms)
    pairs = zip(arrays, wanted, norms, strict=True)
    errors = [
        float(np.linalg.norm(x - y)) / max(norm, least, 1e-30)
        for x, y, norm in pairs
        if np.issubdtype(y.dtype, np.floating)
    ]
    error = float(np.mean(errors))
    return error if np.isfinite(error) else float("inf")
