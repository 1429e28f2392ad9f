"""The layers of a model, in a loop that is compiled once, or all written out; and what is saved of them for the backward pass."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

from ..layout.mesh import free_axes

# The name of the logits of all tokens, which `cross_entropy` else makes again, some at a time.
LOGITS = "logits_BSV"
FIT = "fit"  # as many of the named arrays as the memory of a device has room for
# What enters each layer, and what attention's backward pass needs, in the memory of the host.
OFFLOAD = "offload"
ENTERS, ATTENTION = "enters", "attention"  # names of these
# OFFLOAD, and those of jax.checkpoint_policies.
POLICIES = ("nothing_saveable", "everything_saveable", "dots_saveable", OFFLOAD)
Run = Callable[..., Any]


@dataclass(frozen=True)
class Choice:
    """names: of the arrays that are saved; None: all names. written_out: layers follow each other, in no loop."""

    names: tuple[str, ...] | None = ()
    written_out: bool = False


CHOICE: ContextVar[Choice] = ContextVar("choice", default=Choice())  # noqa: B039 - it is frozen


@contextmanager
def saving(names: tuple[str, ...] | None, written_out: bool = False) -> Iterator[None]:
    """Save the arrays of these names in what is traced within it; of all names by None."""
    token = CHOICE.set(Choice(names, written_out))
    try:
        yield
    finally:
        CHOICE.reset(token)


def saved(remat: str) -> Callable[..., Any]:
    """Return the policy of jax.checkpoint that a setting asks for.

    remat: one of POLICIES, names of arrays with commas between them, or FIT: those that remat.fit chose,
    none outside of a loss that it made.
    """
    policies = jax.checkpoint_policies
    if remat == OFFLOAD:
        return policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[],
            names_which_can_be_offloaded=[ENTERS, ATTENTION],
            offload_src="device",
            offload_dst="pinned_host",
        )
    if remat in POLICIES:
        return getattr(policies, remat)
    names = CHOICE.get().names
    if names is None:
        return policies.save_any_names_but_these()
    return policies.save_only_these_names(*(names if remat == FIT else remat.split(",")))


def over_layers(
    remat: str,
    in_axes: tuple[Any, ...] = (0, nnx.Carry),
    out_axes: Any = nnx.Carry,
    experts: bool = False,
    capped: bool = False,
) -> Callable[[Run], Run]:
    """Return a decorator: what it makes of run(layer, x) -> x is run(layers, x), of all layers, stacked.

    Each saves for the backward pass what `remat` says, and computes the rest again there.
    in_axes, out_axes: as those of nnx.scan. experts, capped: whether layers have those, and a cap on scores.

    A loop copies what its layers save into one array for all of them, and their parameters and gradients
    out of and into such: on an H100 a step of llama 1B takes 287 ms, written out 270. It takes less memory where
    layers compute much again, and where fsdp sends experts (Mixtral 8x7B on 32 H100: 52.2 GB, written out 66.5).
    Scores with a cap are no GPU kernel's: XLA's own are so many that gemma2 9b compiles in 145 s, in a loop in 37.
    """

    def decorate(layer: Run) -> Run:
        def run(layers: nnx.Module, *others: Any) -> Any:
            gathered = free_axes().get("fsdp", 1) > 1
            written_out = CHOICE.get().written_out and not (capped or (experts and gathered))
            # In a loop nothing of the backward pass is one with the forward one's; written out, XLA
            # would find it twice, and save it. Parameters only where what is made of them takes more.
            grows = gathered or _in_few_bits(layers)
            apart: Any = written_out and (grows, *(True for _ in others))
            axes = {"in_axes": in_axes, "out_axes": out_axes}
            loop = nnx.scan(**axes, graph_updates=False, unroll=written_out)
            if remat == "everything_saveable":  # without JAX's rounding, which complex numbers lack
                return loop(layer)(layers, *others)
            again = nnx.remat(policy=saved(remat), prevent_cse=apart, graph_updates=False)
            return loop(again(_entered(layer) if remat == OFFLOAD else layer))(layers, *others)

        return run

    return decorate


def _entered(layer: Run) -> Run:
    """Return `layer`, which names what enters it."""

    def named(module: nnx.Module, x: Any, *others: Any) -> Any:
        return layer(module, jax.tree.map(lambda x: checkpoint_name(x, ENTERS), x), *others)

    return named


def _in_few_bits(layers: nnx.Module) -> bool:
    """Return whether a parameter is stored in fewer bits than it is multiplied in."""
    return any(x.dtype.itemsize == 1 for x in jax.tree.leaves(nnx.state(layers, nnx.Param)))
