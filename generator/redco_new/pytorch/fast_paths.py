"""Fast paths of PyTorch's layers, which a program has none of: they call kernels of their own, or ask for values of a mask, as distributions do of what they are given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.distributions import Distribution
from torch.nn.modules import transformer


@contextmanager
def without_fast_paths() -> Iterator[None]:
    """Make nn.TransformerEncoder call what its layers do, and nn.TransformerDecoder take a mask as it is: whether it is the causal one is a hint alone."""
    enabled, ask = torch.backends.mha.get_fastpath_enabled(), transformer._detect_is_causal_mask
    checks = Distribution._validate_args
    torch.backends.mha.set_fastpath_enabled(False)
    Distribution.set_default_validate_args(False)
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
        Distribution.set_default_validate_args(checks)
        transformer._detect_is_causal_mask = ask
