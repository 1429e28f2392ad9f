"""How a class draws its parameters: what its constructor fills each with, noted while it is made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.nn import init
from torch.overrides import TorchFunctionMode

UNKNOWN = "unknown"  # in another way


@dataclass(frozen=True)
class Draw:
    """What fills a parameter.

    kind: "normal" of (mean, deviation), "uniform" of (least, most), "constant" of (value,), UNKNOWN of ()
    first: the number of what it fills copies of; None of what is drawn by itself
    """

    kind: str
    numbers: tuple[float, ...]
    first: int | None = field(default=None, compare=False)


NEW = {
    "zeros": Draw("constant", (0.0,)),
    "ones": Draw("constant", (1.0,)),
    "randn": Draw("normal", (0.0, 1.0)),
    "rand": Draw("uniform", (0.0, 1.0)),
}
# What fills its first argument, and gives it.
FILLS = {"normal_", "uniform_", "zero_", "fill_"}
NEW_VALUES = ("empty", "full", "tensor", "arange", "linspace", "empty_like", "randn_like")


class _Recorder(TorchFunctionMode):
    """Record by storage, which a parameter shares with what it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: dict[int, Draw] = {}
        self._copies = itertools.count(1)
        self._alive = list[torch.Tensor]()  # or another array could have the memory of one

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function; record what it fills. What has no values is not filled: drawing takes a tenth of a millisecond a call there."""
        name = getattr(func, "__name__", "")
        filled = (args[0] if args else (kwargs or {}).get("tensor")) if name in FILLS else None
        without = isinstance(filled, torch.Tensor) and filled.is_meta
        result = filled if without else func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            named = {key: x for key, x in (kwargs or {}).items() if key != "tensor"}
            self._record(name, result, args, named)
            self._alive += [result] if _storage(result) in self.draws else []
        return result

    def _record(
        self, name: str, result: torch.Tensor, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        if name.rstrip("_") != name and result.nbytes < result.untyped_storage().nbytes():
            return  # a row of padding, say: the others are drawn as before
        key = _storage(result)
        if name in NEW:
            self.draws[key] = NEW[name]
        elif name in ("to", "clone"):  # as of layers that are copied
            source = _storage(args[0])
            if former := self.draws.get(source):
                self.draws[source] = replace(former, first=former.first or next(self._copies))
                self.draws[key] = self.draws[source]
        elif name == "copy_":  # as of an orthogonal matrix, or of NumPy's
            other = args[1] if isinstance(args[1], torch.Tensor) else None
            former = None if other is None else self.draws.get(_storage(other))
            self.draws[key] = former or Draw(UNKNOWN, ())
        elif name in NEW_VALUES:
            self.draws.pop(key, None)
        elif name in ("normal_", "uniform_"):
            self.draws[key] = Draw(name.rstrip("_"), _two_numbers(args, kwargs))
        elif name == "kaiming_uniform_":
            bound = _kaiming_bound(result, *args[1:], **kwargs)
            self.draws[key] = Draw("uniform", (-bound, bound))
        elif name == "zero_":
            self.draws[key] = Draw("constant", (0.0,))
        elif name in ("fill_", "constant_"):
            value = args[1] if len(args) > 1 else next(iter(kwargs.values()))
            self.draws[key] = Draw("constant", (float(value),))
        elif name in ("mul", "__mul__", "__rmul__", "mul_"):
            factor = args[1]
            former = (
                self.draws.get(_storage(args[0])) if isinstance(args[0], torch.Tensor) else None
            )
            if former and isinstance(factor, int | float):
                scaled = tuple(float(x * factor) for x in former.numbers)
                self.draws[key] = Draw(former.kind, scaled)


@contextmanager
def record_draws() -> Iterator[Any]:
    """Record what fills parameters of modules that are made meanwhile: draw_of(parameter) gives it, or None."""
    recorder = _Recorder()
    former = init._no_grad_trunc_normal_

    def truncated(
        tensor: torch.Tensor, mean: float, std: float, *_: Any, **__: Any
    ) -> torch.Tensor:
        # PyTorch cuts at -2 and 2 by default, whatever the deviation: it cuts off nothing.
        recorder.draws[_storage(tensor)] = Draw("normal", (mean, std))
        return tensor

    init._no_grad_trunc_normal_ = truncated  # it looks at values, which the meta device has not
    try:
        with recorder:
            yield lambda parameter: recorder.draws.get(_storage(parameter))
    finally:
        init._no_grad_trunc_normal_ = former


def _two_numbers(args: Any, kwargs: Mapping[str, Any]) -> tuple[float, float]:
    """Return what normal_ or uniform_ is called with, of a tensor or of torch.nn.init."""
    names = ("mean", "std") if kwargs.keys() & {"mean", "std"} else ("a", "b")
    rest = dict(zip(names, args[1:], strict=False)) | dict(kwargs)
    least, most = (rest.get(name, default) for name, default in zip(names, (0.0, 1.0), strict=True))
    return float(least), float(most)


def _kaiming_bound(
    tensor: torch.Tensor,
    a: float = 0,
    mode: Any = "fan_in",
    nonlinearity: Any = "leaky_relu",
    **_: Any,
) -> float:
    """Return the bound of torch.nn.init.kaiming_uniform_."""
    fan = init._calculate_correct_fan(tensor, mode)
    return init.calculate_gain(nonlinearity, a) * (3 / fan) ** 0.5


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def draws_of(module: nn.Module, draw_of: Any) -> dict[str, Draw]:
    """Return the draw of each parameter that has one, and of each buffer that is drawn at random."""
    pairs = ((name, draw_of(x)) for name, x in module.named_parameters(remove_duplicate=False))
    buffers = ((name, draw_of(x)) for name, x in module.named_buffers(remove_duplicate=False))
    drawn = {name: draw for name, draw in buffers if draw and draw.kind in ("normal", "uniform")}
    return {name: draw for name, draw in pairs if draw} | drawn
