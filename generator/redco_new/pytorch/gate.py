"""The printed model against the class in PyTorch: outputs, gradients, and what a step in training changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
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
from redco_new.pytorch.drop_path import without_drops
from redco_new.pytorch.experts import by_checkpoint_names
from redco_new.pytorch.gate_examples import randomize
from redco_new.pytorch.printed import Gate, Stored
from redco_new.pytorch.setting import TORCH
from redco_new.pytorch.refusal import Differs
from redco_new.pytorch.weights import stack

# Of the largest value of a tensor: what float32 leaves of a difference in the order of sums.
MOST = 1e-4
# Gradients that cancel out, as of a bias before BatchNorm, are noise of sums of larger ones: what is smaller
# than this share of the largest gradient of all is compared with that share. The bias of a ConvTranspose2d before a
# BatchNorm2d of 14 x 14 places was 1.2e-6 of the largest.
NOISE = 5e-2
# Of XLA: LLVM alone compiles a program in a quarter of the time that it takes with MLIR before it, and all in one piece in a sixth.
QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
OUT_OF_BOUNDS = re.compile(r"out of (bounds|range)")  # as PyTorch says of an index
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
        weights = by_checkpoint_names(self.torch, self.torch.state_dict())
        state = nnx.state(self.printed)
        for path, leaf in nnx.to_flat_state(state):
            key = "/".join(map(str, path))
            if key in stored:
                leaf[...] = jnp.asarray(stack(weights, stored[key], leaf.shape))
        nnx.update(self.printed, state)


@contextmanager
def compiled_once() -> Iterator[None]:
    """Compile programs without what makes them fast: each runs once."""
    former = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", former)


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
            raise Differs(
                where, f"{what} from PyTorch's by {error:.1e} of the largest: not printed", todo
            )
    return gate


# Functions that draw, which in evaluation give their mean here, as what is printed for them does there; and what they give in training.
MEANS = {"randn": 0.0, "rand": 0.5, "randn_like": 0.0, "rand_like": 0.5}
STILL = 0.5
# Functions that drop by themselves -> which argument is the rate.
RATES = dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), 5) | {
    "multi_head_attention_forward": 10
}


def _first_of_equals(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> torch.return_types.topk:
    """Return the k largest numbers and where they are: of equal ones the first, as XLA takes them; PyTorch takes any."""
    values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k), places.narrow(dim, 0, k)))


class _WithoutDropout(TorchFunctionMode):
    """Turn dropout off, by whatever function a class calls it, and have the largest of equal numbers be the first of them."""

    def __init__(self, training: bool) -> None:
        super().__init__()
        self._training = training

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives, without dropout."""
        name = getattr(func, "__name__", "")
        if "dropout" in name:
            return args[0] if args else kwargs["input"]
        if name in MEANS:
            result = func(*args, **(kwargs or {}))
            return torch.full_like(result, STILL if self._training else MEANS[name])
        if name in ("bernoulli", "bernoulli_"):  # what is drawn is divided by its chance
            result, chance = func(*args, **(kwargs or {})), [*args[1:2], *(kwargs or {}).values()]
            return result.copy_(torch.as_tensor(chance[0]) if chance else args[0])
        if name == "topk":
            return _first_of_equals(*args, **(kwargs or {}))
        if place := RATES.get(name):
            args = (*args[:place], 0.0, *args[place + 1 :])
        return func(*args, **{**(kwargs or {}), **({"dropout_p": 0.0} if name == SDPA else {})})


def _measure(
    pair: Pair,
    arrays: Mapping[str, np.ndarray],
    call: Call,
    names: Mapping[str, str],
    training: bool,
):
    """Return the largest error of outputs, that of gradients, and the name of that parameter."""
    theirs, of_theirs = run_torch(pair.torch, arrays, call, training)
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
    return of_outputs, *worst


def printed_arrays(
    arrays: Mapping[str, np.ndarray], names: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Return arrays by the names that the printed model has for them; images have their channels last there.

    One that the class does not take, as a mask, is of ones.
    """
    first = next(iter(arrays.values()))
    own = {k: arrays[x] if x in arrays else np.ones(first.shape, bool) for k, x in names.items()}
    return {k: np.moveaxis(x, 1, -1) if k.endswith("_BHWC") else x for k, x in own.items()}


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
        with _WithoutDropout(module.training), without_drops(module):
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
    @partial(jax.jit, compiler_options=QUICK)
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
