"""What PyTorch does beside computing, which a program has none of.

Fast paths of its layers call kernels of their own, or ask for values of a mask, as distributions do of what they are given. Checkpoints compute again
what `remat` says of a project, and autocast computes in another dtype, which `config.dtype` says; what is compiled
is its function.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

import torch
from torch.distributions import Distribution
from torch.nn.modules import transformer
from torch.utils import checkpoint

from redco_new.pytorch.norms import norms_by_parts


@contextmanager
def without_fast_paths() -> Iterator[None]:
    """Make nn.TransformerEncoder call what its layers do, and nn.TransformerDecoder take a mask as it is: whether it is the causal one is a hint alone."""
    enabled, ask = torch.backends.mha.get_fastpath_enabled(), transformer._detect_is_causal_mask
    checks = Distribution._validate_args
    threads = torch.get_num_threads()
    torch.backends.mha.set_fastpath_enabled(False)
    torch.set_num_threads(
        1
    )  # each of several waits busily for the others: most of what they do at sizes of the gate
    Distribution.set_default_validate_args(False)
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        with (
            torch.compiler.set_stance("force_eager"),
            norms_by_parts(),
            patch.multiple(torch.autocast, __init__=_nothing, __enter__=_itself, __exit__=_nothing),
            patch.object(checkpoint, "CheckpointFunction", _Called),
            patch.object(checkpoint, "_checkpoint_without_reentrant_generator", _once),
        ):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.mha.set_fastpath_enabled(enabled)
        Distribution.set_default_validate_args(checks)
        transformer._detect_is_causal_mask = ask


@contextmanager
def silence() -> Iterator[None]:
    """Keep what PyTorch logs, warns of and prints, its graph too, and what a class prints, off the terminal: what is wrong is raised."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stderr(io.StringIO()),
            redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Return nothing."""


def _itself(context: Any) -> Any:
    return context


class _Called:
    """Stands for a checkpoint that is computed again: the function is called."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """Return what a function gives."""
        return function(*args)


def _once(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield
