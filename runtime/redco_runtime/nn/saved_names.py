"""What the program that is traced saves for the backward pass, and whether its layers are written out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax

# The name of the logits of all tokens, which `cross_entropy` else makes again, some at a time.
LOGITS = "logits_BSV"
FIT = "fit"  # as many of the named arrays as the memory of a device has room for
# What enters each layer, and what attention's backward pass needs, in the memory of the host.
OFFLOAD = "offload"
ENTERS, ATTENTION = "enters", "attention"  # names of these
# OFFLOAD, and those of jax.checkpoint_policies.
POLICIES = ("nothing_saveable", "everything_saveable", "dots_saveable", OFFLOAD)


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
