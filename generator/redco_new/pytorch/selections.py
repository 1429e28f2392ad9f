"""Rows that a mask selects, computed of all rows: what comes of those that it leaves out is written nowhere.

How many rows a mask selects has no program. Where they are only written, or added, to where they were selected from, a class
computes the same of all rows, and a mask says which of them are written: as experts of the tokens that chose them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

Made = TypeVar("Made")
Tensor = torch.Tensor
READ, WRITE = Tensor.__getitem__, Tensor.__setitem__
NONZERO, WHERE = (Tensor.nonzero, torch.nonzero), (torch.where,)
ADD = (Tensor.index_add_, Tensor.index_add, torch.index_add)
NUMBERS = (Tensor.item, Tensor.__int__, Tensor.__index__)
ANY, IF = (Tensor.any, torch.any), Tensor.__bool__
SAME = (Tensor.squeeze, Tensor.flatten, Tensor.to, Tensor.long, Tensor.detach)


def compute_all_rows(call: Callable[[], Made]) -> Made | None:
    """Return what a call gives where a class computes all rows of those that masks select; None where they are read and not written where they are from."""
    for rows_first in (False, True):
        most: int | None = None
        for _ in range(2):
            try:
                with Selections(most, rows_first) as selections:
                    result = call()
            except _Beyond as error:
                most = error.size
                continue
            except Exception:
                break  # of the class's own code: it does something else with what it selects
            if selections.unwritten:
                break
            return result
    return None


class _Beyond(Exception):
    """A place is read that an array does not have: none that is gone through is there, but for a mask that is longer."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Selections(TorchFunctionMode):
    """What a class does with rows that are selected.

    most: places that are gone through, of each list; None for all
    rows_first: whether the rows of a mask of two dims are what it selects, and its columns of what choice
    rows: places of all tokens -> the mask by which some are selected, and which of its dims is of choices
    places: a number among those that are not 0, all of which are gone through -> which it is
    questions: whether a mask selects any
    unwritten: masks by which rows were read, and not written yet
    """

    def __init__(self, most: int | None = None, rows_first: bool = False) -> None:
        super().__init__()
        self.most, self.rows_first = most, rows_first
        self.rows: dict[int, tuple[Tensor, Tensor, int]] = {}
        self.places: dict[int, tuple[Tensor, int]] = {}
        self.lists: dict[int, Tensor] = {}
        self.unwritten: dict[int, Tensor] = {}
        self.questions: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives."""
        kwargs = kwargs or {}
        if func in NONZERO and not kwargs.get("as_tuple") and args[0].ndim == 1:
            return self._go_through(args[0])
        if func in WHERE and len(args) == 1 or func in NONZERO and kwargs.get("as_tuple"):
            if args[0].ndim <= 2:
                return self._select(args[0])
        if func is Tensor.unbind and id(args[0]) in self.lists:
            return tuple(self._place(args[0][i], i) for i in range(len(args[0])))
        if func in NUMBERS and id(args[0]) in self.places:
            return self.places[id(args[0])][1]
        if func in ANY and len(args) == 1 and _is_mask(args[0]):
            result = func(*args, **kwargs)
            self.questions[id(result)] = result
            return result
        if func is IF and id(args[0]) in self.questions:
            return True  # what no row is of is written nowhere: the gate asks that too
        if func in ADD and id(args[2]) in self.rows:
            return self._add(func, *args)
        if func is READ:
            return self._read(*args)
        if func is WRITE and self._selects(args[1]) and _is_of_all(args[2], args[1]):
            return self._write(*args)
        result = func(*args, **kwargs)
        if func in SAME and id(args[0]) in self.places:
            self._place(result, self.places[id(args[0])][1])
        return result

    def _go_through(self, x: Tensor) -> Tensor:
        """Return the places of all numbers, one a row."""
        places = torch.arange(self.most or len(x), device=x.device)[:, None]
        self.lists[id(places)] = places
        return places

    def _place(self, x: Tensor, place: int) -> Tensor:
        self.places[id(x)] = x, place
        return x

    def _select(self, mask: Tensor) -> tuple[Tensor, ...]:
        """Return the places of all tokens, and where a token has what is selected: of experts, it chooses each once."""
        mask = mask if mask.dtype == torch.bool else mask != 0
        choices = 1 if self.rows_first else 0  # the other dim is of tokens
        tokens = mask.shape[0] if mask.ndim == 1 else mask.shape[1 - choices]
        every = torch.arange(tokens, device=mask.device)
        self.rows[id(every)] = every, mask, choices
        self.unwritten[id(every)] = every
        if mask.ndim == 1:
            return (every,)
        choice = mask.to(torch.int32).argmax(choices)
        return (every, choice) if self.rows_first else (choice, every)

    def _chosen(self, places: Tensor) -> Tensor:
        """Return which of all tokens are selected."""
        _, mask, choices = self.rows[id(places)]
        return mask if mask.ndim == 1 else mask.any(choices)

    def _add(self, func: Any, x: Tensor, dim: int, places: Tensor, rows: Tensor) -> Tensor:
        """Return x to which those rows are added that are selected."""
        self.unwritten.pop(id(places), None)
        chosen = self._chosen(places)
        shape = [len(chosen) if i == dim % x.ndim else 1 for i in range(x.ndim)]
        more = torch.where(
            chosen.view(shape), rows, torch.zeros((), dtype=rows.dtype, device=rows.device)
        )
        return x.add_(more) if func is Tensor.index_add_ else x + more

    def _read(self, x: Tensor, index: Any) -> Tensor:
        """Return what is read of x: all rows, where some are selected."""
        if id(x) in self.places:
            return self._place(x, self.places[id(x)][1])
        if _is_mask(index):
            self.unwritten[id(index)] = index
            if index.ndim == 1:
                return x.clone()  # it may be added to, and written back
            return x.reshape(index.numel(), *x.shape[index.ndim :]).clone()
        several = isinstance(index, tuple)
        if several and index and _is_mask(index[0]):
            rows = self._read(x, index[0])
            return READ(rows, (slice(None), *index[1:]))
        entries = [
            self.places[id(i)][1] if isinstance(i, Tensor) and id(i) in self.places else i
            for i in (index if several else (index,))
        ]
        if not several and id(index) in self.rows and x.shape[0] == len(index):
            return x.clone()
        if type(entries[0]) is int and entries[0] >= x.shape[0]:
            raise _Beyond(x.shape[0])
        return READ(x, tuple(entries) if several else entries[0])

    def _selects(self, index: Any) -> bool:
        return _is_mask(index) or id(index) in self.rows

    def _write(self, x: Tensor, index: Tensor, rows: Tensor) -> None:
        """Write those rows to x that are selected. index: a mask, or the places of all rows"""
        self.unwritten.pop(id(index), None)
        mask = index if _is_mask(index) else self._chosen(index)
        wide = mask[(..., *[None] * (x.ndim - mask.ndim))]
        rows = rows if rows.shape == x.shape else rows.reshape(x.shape)
        x.copy_(torch.where(wide, rows.to(x.dtype), x))


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype == torch.bool and index.ndim > 0


def _is_of_all(rows: Any, mask: Tensor) -> bool:
    """Return whether rows are as many as a mask has entries."""
    return isinstance(rows, Tensor) and rows.ndim > 0 and rows.shape[0] == mask.numel()
