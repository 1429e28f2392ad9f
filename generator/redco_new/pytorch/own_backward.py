"""Functions with a backward of their own, as those that compute a part anew: each is printed by its forward, and the gate compares what its backward gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from torch.autograd.function import Function, _SingleLevelFunction


def _apply(cls: Any, *args: Any) -> Any:
    """Return what a function gives, as operations of its own: in its forward no gradient is followed, so that `no_grad` means nothing."""
    with ExitStack() as stack:
        for name in ("__enter__", "__exit__"):
            stack.enter_context(patch.object(torch.no_grad, name, lambda *_: None))
        if cls.setup_context is not _SingleLevelFunction.setup_context:
            return cls.forward(*args)
        return cls.forward(MagicMock(), *args)  # of what it keeps for its backward


@contextmanager
def by_forward() -> Iterator[None]:
    """Make such functions call their forward, meanwhile."""
    with patch.object(Function, "apply", classmethod(_apply)):
        yield
