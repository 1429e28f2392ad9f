"""What a class puts on a device of its own, as `.to("cuda")` in its forward, stays where its inputs are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

META = torch.device("meta")
MOVES = {torch.Tensor.cpu, torch.Tensor.cuda}


class _Stays(TorchFunctionMode):
    """Make and move arrays on the meta device, meanwhile, whatever device is named."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function in MOVES:
            return args[0]
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = META
        if function is torch.Tensor.to:
            args = tuple(META if _is_device(x) else x for x in args)
        return function(*args, **kwargs)


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device | str) or type(value) is int


@contextmanager
def on_meta() -> Iterator[None]:
    """Keep on the meta device what is made meanwhile, and what is moved."""
    with META, _Stays():
        yield
