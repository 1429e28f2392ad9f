"""Two that a request cannot have together, whatever its model: one table, which creation reads and a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redco_plan import CONTEXT, STAGE

from redco_new.errors import RedcoError
from redco_new.request import COMPUTE, HOST, RING, Request


@dataclass(frozen=True)
class Pair:
    """Two things that do not go together.

    where: the flag of one of them.  both: whether a request has the two.  what: why not.  todo: what goes.
    """

    where: str
    both: Callable[[Request], bool]
    what: Callable[[Request], str]
    todo: str


def _sweeps(request: Request) -> bool:
    return request.lora is not None and request.lora.sweep > 0


def _not_with_a_sweep(flag: str, has: Callable[[Request], bool], what: str) -> Pair:
    """Return what many adapters at once do not go with. has: whether a request has it. what: what it is."""
    why = f"a step of many adapters is a loop over those of one, which is not tried with {what}"
    todo = f"leave sweep out of --lora, or {flag} out"
    return Pair("--lora: sweep", lambda one: _sweeps(one) and has(one), lambda _: why, todo)


PAIRS = (
    Pair(
        "--lora: sweep",
        lambda one: _sweeps(one) and (not one.is_family or one.of_transformers or bool(one.via)),
        lambda one: f"{one.model_name} is a class of its own, and many adapters at once are of a family of redco's",
        "leave sweep out of --lora, or choose a family: `redco models` lists them",
    ),
    _not_with_a_sweep("--products", lambda one: one.products != COMPUTE, "products in 8 bits"),
    _not_with_a_sweep(
        "--optimizer-memory", lambda one: one.optimizer_memory == HOST, "moments on the host"
    ),
    _not_with_a_sweep(
        "--gradients-across", lambda one: one.gradients_across != COMPUTE, "gradients added up so"
    ),
    _not_with_a_sweep("the axis stage", lambda one: STAGE in one.mesh, "stages"),
    Pair(
        "--lora",
        lambda one: one.lora is not None and one.lora.dropout > 0 and STAGE in one.mesh,
        lambda one: f"stage={one.mesh[STAGE]}: a micro-batch does not know which of its numbers a step drops",
        "leave dropout out of --lora",
    ),
    Pair(
        "--sequence-parallel",
        lambda one: one.sequence_parallel and CONTEXT in one.mesh,
        lambda one: f"context={one.mesh[CONTEXT]} splits the positions already",
        "leave one of the two out",
    ),
    Pair(
        "--context-attention ring",
        lambda one: one.context_attention == RING and CONTEXT not in one.mesh,
        lambda one: "the mesh has no axis context, around which keys and values go",
        "give --mesh context=2 or more, or leave it out",
    ),
    Pair(
        "--optimizer-memory host",
        lambda one: one.optimizer_memory == HOST and "muon" in one.features,
        lambda one: "Muon looks at how all parameters are split together",
        "leave the feature muon out",
    ),
    Pair(
        "--products",
        lambda one: one.products != COMPUTE and one.lora is not None and bool(one.lora.base),
        lambda one: f"--lora base={one.lora and one.lora.base} stores kernels in few bits, and multiplies them in {one.dtype}",
        "leave one of them out",
    ),
)


def check_pairs(request: Request) -> None:
    """Raise RedcoError for two that do not go together."""
    for pair in PAIRS:
        if pair.both(request):
            raise RedcoError(pair.where, pair.what(request), pair.todo)
