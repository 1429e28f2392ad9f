"""The printed model against the class in PyTorch: outputs, gradients, and what a step in training changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from redco_plan import error_message
from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.pytorch.printed import Gate, Stored
from redco_new.pytorch.probe import TORCH, Setting
from redco_new.pytorch.texts import POSITIONS
from redco_new.pytorch.weights import stack

# Of the largest value of a tensor: what float32 leaves of a difference in the order of sums.
MOST = 1e-4
# Gradients that cancel out, as of a bias before BatchNorm, are noise of sums of larger ones: what is smaller
# than this share of the largest gradient of all is compared with that share.
NOISE = 1e-2
SDPA = "scaled_dot_product_attention"


@dataclass(frozen=True)
class Pair:
    """A class in PyTorch and as printed, with the same sizes."""

    torch: nn.Module
    printed: nnx.Module
    parameters: Mapping[str, Stored]
    buffers: Mapping[str, Stored]

    def bring_weights(self) -> None:
        """Give the printed model the weights of the class in PyTorch."""
        stored = {**self.parameters, **self.buffers}
        weights = self.torch.state_dict()
        state = nnx.state(self.printed)
        for path, leaf in nnx.to_flat_state(state):
            key = "/".join(map(str, path))
            if key in stored:
                leaf[...] = jnp.asarray(stack(weights, stored[key], leaf.shape))
        nnx.update(self.printed, state)


def compare(where: str, pair: Pair, setting: Setting, call: Call, names: Mapping[str, str]) -> Gate:
    """Return how far a printed model is from PyTorch. Raises RedcoError where it is too far.

    names: inputs of the printed model -> of the class: one that is not among them is ones, and positions count
    """
    arrays = examples(pair.torch, setting)
    for key in arrays.keys() - {*names.values()}:
        ones = np.ones_like(arrays[key])
        arrays[key] = np.cumsum(ones, axis=1) - 1 if key == POSITIONS else ones
    _randomize(pair.torch)
    pair.bring_weights()
    modes = [_measure(pair, arrays, call, names, training) for training in (False, True)]
    outputs = max(one for one, _, _ in modes)
    gradients, worst = max((two, name) for _, two, name in modes)
    gate = Gate(outputs, gradients, worst, _buffers_error(pair))
    for what, error in (
        ("its outputs differ", gate.outputs),
        (f"the gradient of {worst} differs", gate.gradients),
        ("buffers differ after a step", gate.buffers),
    ):
        if not error <= MOST:
            todo = "write that part of the class by plain operations"
            raise RedcoError(
                where, f"{what} from PyTorch's by {error:.1e} of the largest: not printed", todo
            )
    return gate


def examples(module: nn.Module, setting: Setting) -> dict[str, np.ndarray]:
    """Return arrays of an example batch: ids that all tables have, numbers of mean 0."""
    rng = np.random.default_rng(0)
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    sizes = [table.num_embeddings for table in tables]
    # PyTorch gives these rows no gradient, which no text that is learned reads.
    padding = [table.padding_idx for table in tables if table.padding_idx is not None]
    arrays = {}
    for name, x in setting.inputs.items():
        shape = (setting.batch, *x.shape)
        if x.dtype == "bool":
            arrays[name] = rng.random(shape) < 0.9
        elif np.issubdtype(np.dtype(x.dtype), np.integer):
            ids = rng.integers(0, min([x.below or 2**31, *sizes, 256]), shape)
            arrays[name] = np.where(np.isin(ids, padding), 3, ids).astype(x.dtype)
        else:
            arrays[name] = rng.normal(size=shape).astype(x.dtype)
    return arrays


def _randomize(module: nn.Module) -> None:
    """Give all parameters values that tell them apart: a bias of zeros would hide a mistake."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim < 2:
                parameter.add_(torch.randn_like(parameter) * 0.1)


class _WithoutDropout(TorchFunctionMode):
    """Turn dropout off, by whatever function a class calls it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives, without dropout."""
        name = getattr(func, "__name__", "")
        if "dropout" in name:
            return args[0] if args else kwargs["input"]
        return func(*args, **{**(kwargs or {}), **({"dropout_p": 0.0} if name == SDPA else {})})


def _measure(
    pair: Pair,
    arrays: Mapping[str, np.ndarray],
    call: Call,
    names: Mapping[str, str],
    training: bool,
):
    """Return the largest error of outputs, that of gradients, and the name of that parameter."""
    pair.torch.train(training)
    pair.torch.zero_grad()
    tensors = {
        name: torch.from_numpy(np.ascontiguousarray(x).astype(TORCH.get(str(x.dtype), x.dtype)))
        for name, x in arrays.items()
    }
    with _WithoutDropout():
        result = pair.torch(**call.fill(tensors))
    theirs = [x for x in pytree.tree_leaves(result) if torch.is_tensor(x)]
    floats = [x for x in theirs if x.is_floating_point()]
    draws = [
        torch.randn(x.shape, generator=torch.Generator().manual_seed(i))
        for i, x in enumerate(floats)
    ]
    torch.stack([(x * w).sum() for x, w in zip(floats, draws, strict=True)]).sum().backward()
    own = {name: arrays[theirs] for name, theirs in names.items()}
    try:
        outputs, grads = _run(pair.printed, own, [w.numpy() for w in draws], training)
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise RedcoError(
            "--model", f"as printed it cannot run: {error_message(error)}", "write it by others"
        ) from error
    if len(outputs) != len(theirs):
        raise RedcoError(
            "--model", f"it gives {len(outputs)} arrays, and PyTorch {len(theirs)}", ""
        )
    of_outputs = max(_error(a, b.detach().numpy()) for a, b in zip(outputs, theirs, strict=True))
    parameters = dict(pair.torch.named_parameters(remove_duplicate=False))
    scale = max(
        float(x.abs().max()) for x in (p.grad for p in parameters.values()) if x is not None
    )
    worst, of_theirs = (0.0, ""), {name: p.grad for name, p in parameters.items()}
    for path, grad in grads.items():
        stored = pair.parameters[path]
        wanted = stack(of_theirs, stored, grad.shape)
        worst = max(worst, (_error(grad, wanted, NOISE * scale), stored.name))
    return of_outputs, *worst


def _run(model: nnx.Module, arrays: Any, draws: Sequence[np.ndarray], training: bool):
    """Return the outputs of the printed model, and the gradients of their sum, weighed by `draws`."""
    for _, part in nnx.iter_modules(model):
        if isinstance(part, nnx.Dropout):
            part.rate = 0.0
    model.train() if training else model.eval()
    graph, params, *rest = nnx.split(model, nnx.Param, ...)

    @jax.jit
    def run(params: Any, rest: Any):
        def loss(params: Any):
            model = nnx.merge(graph, params, *rest, copy=True)
            outputs = jax.tree.leaves(model(**arrays))
            floats = [x for x in outputs if jnp.issubdtype(x.dtype, jnp.inexact)]
            total = sum((x * w).sum() for x, w in zip(floats, draws, strict=True))
            return total, (outputs, nnx.state(model, nnx.Not(nnx.Param)))

        return jax.grad(loss, has_aux=True)(params)

    grads, (outputs, changed) = run(params, rest)
    nnx.update(model, changed)
    flat = {"/".join(map(str, path)): np.asarray(x[...]) for path, x in nnx.to_flat_state(grads)}
    return [np.asarray(x) for x in outputs], flat


def _buffers_error(pair: Pair) -> float:
    """Return how far the buffers are, which a call in training may have changed."""
    weights, errors = pair.torch.state_dict(), [0.0]
    for path, leaf in nnx.to_flat_state(nnx.state(pair.printed)):
        if stored := pair.buffers.get("/".join(map(str, path))):
            wanted = stack(weights, stored, leaf.shape)
            errors.append(_error(np.asarray(leaf[...]), wanted))
    return max(errors)


def _error(ours: np.ndarray, theirs: np.ndarray, least: float = 0.0) -> float:
    """Return the largest difference over the largest value; NaN and other shapes are infinitely far."""
    if ours.shape != theirs.shape or not ours.size:
        return float("inf") if ours.shape != theirs.shape else 0.0
    if theirs.dtype == bool or np.issubdtype(theirs.dtype, np.integer):
        return float((ours != theirs).any())
    largest = max(float(np.abs(theirs).max()), least, 1e-30)
    error = float(np.abs(ours - theirs).max()) / largest
    return error if np.isfinite(error) else float("inf")
