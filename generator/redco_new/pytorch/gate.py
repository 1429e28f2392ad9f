"""The printed model against the class in PyTorch: outputs, gradients, and what a step in training changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx
from torch import nn
from torch.utils import _pytree as pytree

from redco_plan import error_message
from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.quick_programs import jit_quickly
from redco_new.pytorch.drop_path import without_drops
from redco_new.pytorch.experts import by_checkpoint_names
from redco_new.pytorch.gate_pair import Pair, as_float64, in_float64, printed_arrays
from redco_new.pytorch.gate_draws import STILL, WithoutDraws
from redco_new.pytorch.gate_examples import randomize
from redco_new.pytorch.memory import forgets, writes_buffers
from redco_new.pytorch.printed import Gate, worst_of
from redco_new.pytorch.setting import TORCH
from redco_new.pytorch.refusal import Differs
from redco_new.pytorch.weights import stack

# Of the largest value of a tensor: what float32 leaves of a difference in the order of sums.
MOST = 1e-4
# Gradients that cancel out, as of a bias before BatchNorm, are noise of sums of larger ones: what is smaller
# than this share of the largest gradient of all is compared with that share. The bias of a ConvTranspose2d before a
# BatchNorm2d of 14 x 14 places was 1.2e-6 of the largest.
NOISE = 5e-2
OUT_OF_BOUNDS = re.compile(r"out of (bounds|range)")  # as PyTorch says of an index


def compare(
    where: str,
    pair: Pair,
    arrays: Mapping[str, np.ndarray],
    call: Call,
    names: Mapping[str, str],
) -> Gate:
    """Return how far a printed model is from PyTorch, in float32. Raises RedcoError where it is too far.

    names: inputs of the printed model -> of the class
    """
    randomize(pair.torch)
    pair.bring_weights()
    gates = list[Gate]()
    for training in (False, True):
        gate = _errors(pair, arrays, call, names, training)
        if _fault(gate):  # or rounding, which of a million places finds one whose ReLU it turns
            with in_float64(pair) as double:
                exact = as_float64(arrays)
                gate = _errors(double, exact, call, names, training, torch.float64)
        if fault := _fault(gate):
            todo = "write that part of the class by plain operations"
            raise Differs(where, f"{fault} of the largest: not printed", todo)
        gates.append(gate)
    return worst_of(gates)


def _fault(gate: Gate) -> str:
    """Return what differs by too much, and by how much; "" where nothing does."""
    for what, error in (
        ("its outputs differ", gate.outputs),
        (f"the gradient of {gate.worst} differs", gate.gradients),
        ("buffers differ after a step", gate.buffers),
    ):
        if not error <= MOST:
            return f"{what} from PyTorch's by {error:.1e}"
    return ""


def _errors(
    pair: Pair,
    arrays: Mapping[str, np.ndarray],
    call: Call,
    names: Mapping[str, str],
    training: bool,
    dtype: torch.dtype = torch.float32,
) -> Gate:
    """Return how far a printed model is from PyTorch. dtype: that both compute in"""
    theirs, of_theirs = run_torch(pair.torch, arrays, call, training, dtype)
    own = printed_arrays(arrays, names)
    outputs, grads = run_printed(pair.printed, own, training)
    if len(outputs) != len(theirs):
        raise RedcoError(
            "--model", f"it gives {len(outputs)} arrays, and PyTorch {len(theirs)}", ""
        )
    of_outputs = max(error_of(a, b) for a, b in zip(outputs, theirs, strict=True))
    scale = max(float(x.abs().max()) for x in of_theirs.values() if x is not None)
    worst = (0.0, "")
    for path, grad in grads.items():
        stored = pair.parameters[path]
        wanted = stack(of_theirs, stored, grad.shape)
        worst = max(worst, (error_of(grad, wanted, NOISE * scale), stored.name))
    return Gate(of_outputs, *worst, _buffers_error(pair), str(dtype).removeprefix("torch."))


def call_torch(
    module: nn.Module,
    arrays: Mapping[str, np.ndarray],
    call: Call,
    dtype: torch.dtype = torch.float32,
) -> list[torch.Tensor]:
    """Return the outputs of a class in PyTorch, without dropout. dtype: of the numbers that it is called with"""
    tensors = {
        name: torch.from_numpy(np.ascontiguousarray(x).astype(TORCH.get(str(x.dtype), x.dtype)))
        for name, x in arrays.items()
    }
    tensors = {k: x.to(dtype) if x.is_floating_point() else x for k, x in tensors.items()}
    try:
        with WithoutDraws(module.training), without_drops(module), writes_buffers():
            result = module(**call.fill(tensors))
    except (IndexError, RuntimeError) as error:
        ids = ", ".join(name for name, x in arrays.items() if np.issubdtype(x.dtype, np.integer))
        if not ids or not OUT_OF_BOUNDS.search(text := error_message(error)):
            raise
        todo = "say how many ids there are: below = 12, say"
        raise RedcoError("--config: [inputs]", f"{ids}: {text}", todo) from error
    return [x for x in pytree.tree_leaves(result) if torch.is_tensor(x)]


def run_torch(
    module: nn.Module,
    arrays: Mapping[str, np.ndarray],
    call: Call,
    training: bool,
    dtype: torch.dtype = torch.float32,
) -> tuple[list[np.ndarray], dict[str, torch.Tensor | None]]:
    """Return the outputs of a class in PyTorch, and the gradients of their sum, weighed at random.

    dtype: of the numbers that it is called with
    """
    module.train(training)
    module.zero_grad()
    with forgets(module):
        outputs = call_torch(module, arrays, call, dtype)
    floats = [x for x in outputs if x.is_floating_point()]
    weights = map(_weights, range(len(floats)), (x.shape for x in floats))
    torch.stack([(x * w).sum() for x, w in zip(floats, weights, strict=True)]).sum().backward()
    named = module.named_parameters(remove_duplicate=False)
    grads = by_checkpoint_names(module, {name: x.grad for name, x in named})
    as_arrays = (x.float() if x.is_floating_point() else x for x in outputs)
    return [x.detach().numpy() for x in as_arrays], grads


def _weights(number: int, shape: Sequence[int]) -> torch.Tensor:
    """Return what the numbers of an output are weighed by."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(number))


def run_printed(
    model: nnx.Module, arrays: Any, training: bool
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Return the same of the printed model, whose gradients have its paths. Raises RedcoError where it cannot run."""
    for _, part in nnx.iter_modules(model):
        if isinstance(part, nnx.Dropout):
            part.rate = 0.0
        if training and hasattr(part, "still"):
            part.still = STILL
    model.train() if training else model.eval()
    graph, params, *rest = nnx.split(model, nnx.Param, ...)
    try:
        grads, (outputs, changed) = _program(graph)(params, rest, dict(arrays))
    except (TypeError, ValueError, AttributeError, NameError, NotImplementedError) as error:
        raise RedcoError(
            "--model", f"as printed it cannot run: {error_message(error)}", "write it by others"
        ) from error
    nnx.update(model, changed)
    flat = {"/".join(map(str, path)): np.asarray(x[...]) for path, x in nnx.to_flat_state(grads)}
    return [np.asarray(x, np.float32 if x.dtype == jnp.bfloat16 else None) for x in outputs], flat


def _program(graph: Any) -> Any:
    """Return the program of a printed model, compiled once for both modes, where these are one; some hold what has no hash."""
    try:
        return _compiled(graph)
    except TypeError:
        return _compiled.__wrapped__(graph)


@lru_cache(maxsize=2)
def _compiled(graph: Any) -> Any:
    # Of the batch too, which is traced where it is trained.
    @jit_quickly
    def run(params: Any, rest: Any, arrays: Any):
        def loss(params: Any):
            model = nnx.merge(graph, params, *rest, copy=True)
            # in the order that the class has: JAX sorts the keys of a dict
            outputs = [x for x in pytree.tree_leaves(model(**arrays)) if x is not None]
            floats = [x for x in outputs if jnp.issubdtype(x.dtype, jnp.inexact)]
            total = sum((x * _weights(i, x.shape).numpy()).sum() for i, x in enumerate(floats))
            return total, (outputs, nnx.state(model, nnx.Not(nnx.Param)))

        return jax.grad(loss, has_aux=True)(params)

    return run


def _buffers_error(pair: Pair) -> float:
    """Return how far the buffers are, which a call in training may have changed."""
    weights, errors = pair.torch.state_dict(), [0.0]
    for path, leaf in nnx.to_flat_state(nnx.state(pair.printed)):
        if stored := pair.buffers.get("/".join(map(str, path))):
            wanted = stack(weights, stored, leaf.shape)
            errors.append(error_of(np.asarray(leaf[...]), wanted))
    return max(errors)


def error_of(ours: np.ndarray, theirs: np.ndarray, least: float = 0.0) -> float:
    """Return the largest difference over the largest value; NaN and other shapes are infinitely far."""
    if ours.shape != theirs.shape or not ours.size:
        return float("inf") if ours.shape != theirs.shape else 0.0
    if theirs.dtype == bool or np.issubdtype(theirs.dtype, np.integer):
        return float((ours != theirs).any())
    largest = max(float(np.abs(theirs).max()), least, 1e-30)
    error = float(np.abs(ours - theirs).max()) / largest
    return error if np.isfinite(error) else float("inf")
