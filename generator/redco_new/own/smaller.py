"""The arguments of a class that its preset tiny has instead: the user's, or sizes that we make smaller."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flax import linen

from redco_new.errors import RedcoError
from redco_new.models.tiny import tiny_vocab
from redco_new.request.own_class import TINY
from redco_new.own.arguments import Name, add_sizes, change_arguments, nest_sizes, sizes_of
from redco_new.own.build import AbstractModel
from redco_new.own.contents import Content
from redco_new.own.find import Reference
from redco_new.own.outputs import Output

# A model of fewer parameters is tiny as it is: a step of it takes well under a second on a laptop.
SMALL = 2_000_000
LAYERS = 2  # of a tiny model, as those of our families
# A larger dim is no number of layers: the deepest models have about 130. As many equal parameters are layers all the same.
MOST_LAYERS = 256
# Sizes from WIDTH on are scaled, to no less than 8, and those from WIDE on to no less than 64, so that
# a width of some heads has a few numbers for each. Smaller sizes, such as heads, groups and kernels of
# convolutions, stay: what divides by them still does.
WIDTH, WIDE = 64, 256
LEAST = {True: 64, False: 8}
# Fewer words are taken of more than these, which the bytes of our families' tiny presets fit.
FEW_WORDS = 512
# How many scalings are tried, each by half as much: what fails by then fails for another reason.
TRIALS = 4


@dataclass(frozen=True)
class Tiny:
    """The preset tiny of a class.

    changes: argument -> its value, or a mapping of the keys or fields of it that have other values
    by_function: whether the user's function gives its arguments, called with tiny=True
    """

    changes: Mapping[str, Any]
    by_function: bool = False


@dataclass(frozen=True)
class Candidate:
    """A class made with some arguments: its trace, its output, and what its inputs are."""

    abstract: AbstractModel
    output: Output
    contents: Mapping[str, Content]

    @property
    def total(self) -> int:
        """The number of its parameters."""
        return sum(map(math.prod, self.abstract.shapes))


def make_smaller(
    full: Candidate, make: Callable[[Mapping[str, Any]], Candidate], shards: int, texts: bool
) -> dict[str, Any]:
    """Return the arguments that a smaller class has instead; {} where none works, or it is small.

    make: makes the class with other arguments; raises RedcoError where it cannot be made or called
    shards: the most parts of a dim: what divides by them still does
    texts: whether the output is of words, of which there may be fewer
    """
    if full.total <= SMALL or isinstance(full.abstract.reference.value, linen.Module):
        return {}
    search = _Search(full, make, shards, texts)
    search.shorten()
    search.narrow()
    return nest_sizes(search.smaller)


def find_difference(full: Candidate, tiny: Candidate, texts: bool) -> str:
    """Return in what a class made with other arguments is another one, or "": words may be fewer."""
    ours, theirs = tiny.abstract, full.abstract
    shape = tiny.output.shape[:-1] if texts else tiny.output.shape
    if tiny.output.source != full.output.source or shape != full.output.shape[: len(shape)]:
        return f"gives {tiny.output.shape}, and the full model {full.output.shape}"
    bounds = {name: content.below for name, content in full.contents.items()}
    if full.contents != {n: replace(c, below=bounds[n]) for n, c in tiny.contents.items()}:
        return "does other things with its inputs"
    ranks = dict(zip(theirs.paths, map(len, theirs.shapes), strict=True))
    for path, dims in zip(ours.paths, ours.shapes, strict=True):
        if ranks.get(path) != len(dims):  # of which sharding.py has no spec
            return f"has {path} of {len(dims)} dims, and the full model has not"
    if (ours.random, ours.collections) != (theirs.random, theirs.collections):
        return "holds other things than parameters"
    return ""


def takes_tiny(example: Reference) -> bool:
    """Return whether the user's function gives the arguments of the preset tiny too."""
    return TINY in inspect.signature(example.value).parameters


class _Search:
    """Look for smaller sizes, one change after the other: each is kept where the class still works."""

    def __init__(
        self,
        full: Candidate,
        make: Callable[[Mapping[str, Any]], Candidate],
        shards: int,
        texts: bool,
    ):
        self.full, self.best, self.make = full, full, make
        self.shards, self.texts = shards, texts
        self.cls, self.arguments = full.abstract.reference.value, full.abstract.arguments
        self.sizes = dict(sizes_of(add_sizes(self.cls, self.arguments)))
        self.smaller: dict[Name, Any] = {}

    def shorten(self) -> None:
        """Take fewer layers: numbers of which some parameters have as many, and are else the same."""
        counts = Counter(self.full.abstract.shapes)
        stacked = Counter(shape[0] for shape in self.full.abstract.shapes if len(shape) > 1)
        for name, size in self.sizes.items():
            if isinstance(size, tuple):
                if max(size) < WIDTH:  # the depths of stages
                    self._try({name: (1,) * len(size)}, partial(self._is_shorter, LAYERS))
            elif LAYERS < size:
                repeated = any(count % size == 0 for count in counts.values())
                # Heads look like layers in one array, but are split: what divides them still does.
                few = max(LAYERS, math.gcd(size, self.shards)) if stacked[size] > 1 else LAYERS
                if few < size and (repeated or stacked[size] > 1 and size <= MOST_LAYERS):
                    self._try({name: few}, partial(self._is_shorter, few))

    def narrow(self) -> None:
        """Take fewer words, and all widths smaller alike."""
        uses, contents = self.full.abstract.uses, self.full.contents
        ids = [name for name, content in contents.items() if content.kind == "ids"]
        words = {table.rows for name in ids for table in uses[name].tables}
        fewer = {
            name: tiny_vocab(size, self.shards)
            for name, size in self.sizes.items()
            if size in words and size > FEW_WORDS
        }
        if fewer:
            self._try(fewer, self._works)
        fixed = words if self.texts else words | set(self.full.output.shape[1:])
        widths = {name: size for name, size in self.sizes.items() if self._is_wide(size, fixed)}
        self._scale({n: size for n, size in widths.items() if not self._is_fixed(n, size)})

    def _is_wide(self, size: Any, fixed: set[int]) -> bool:
        """Return whether a size, or one of several, is a width: a dim of parameters, or a part of one."""
        dims = {dim for shape in self.full.abstract.shapes for dim in shape}
        return max(_numbers(size)) >= WIDTH and all(
            n not in fixed and any(dim % n == 0 and dim // n <= MOST_LAYERS for dim in dims)
            for n in _numbers(size)
        )

    def _is_fixed(self, name: Name, size: Any) -> bool:
        """Return whether a size is one of what comes in or goes out: less of it alone is seen there.

        What cannot be made or called with it may but lack another size that goes with it; not where
        an input is as large.
        """
        candidate = self._make({name: _divide(size, self._largest_factor([size]))})
        if candidate:
            return not self._works(candidate)
        return size in {n for x in self.full.abstract.inputs.values() for n in x.shape}

    def _scale(self, widths: Mapping[Name, Any]) -> None:
        """Try to divide the widths by a power of two, the largest that works."""
        factor = self._largest_factor(widths.values())
        for _ in range(TRIALS):
            scaled = {name: _divide(size, factor) for name, size in widths.items()}
            if factor < 2 or self._try(scaled, self._works):
                return
            factor //= 2

    def _largest_factor(self, sizes: Iterable[Any]) -> int:
        """Return the largest power of two by which all sizes can be divided; 1 where there are none."""
        wide, factor = [n for size in sizes for n in _numbers(size) if n >= WIDTH], 1
        while wide and all(self._divides(n, 2 * factor) for n in wide):
            factor *= 2
        return factor

    def _divides(self, size: int, factor: int) -> bool:
        """Return whether a size can be divided by `factor`, and still by the shards that divide it."""
        rest = size // factor
        shards = math.gcd(size, self.shards)
        return size % factor == 0 and rest >= LEAST[size >= WIDE] and rest % shards == 0

    def _try(self, sizes: Mapping[Name, Any], works: Callable[[Candidate], bool]) -> bool:
        """Keep `sizes` where the class can be made and called with them and is smaller."""
        candidate = self._make(sizes)
        if not (candidate and candidate.total < self.best.total and works(candidate)):
            return False
        self.best, self.smaller = candidate, {**self.smaller, **sizes}
        return True

    def _make(self, sizes: Mapping[Name, Any]) -> Candidate | None:
        """Return the class with these sizes too; None where it cannot be made or called."""
        changes = nest_sizes({**self.smaller, **sizes})
        try:
            return self.make(change_arguments(self.cls, self.arguments, changes))
        except RedcoError:
            return None

    def _is_shorter(self, layers: int, candidate: Candidate) -> bool:
        """Return whether a class differs in the number of layers alone, which may be in one array."""
        kinds = {shape[1:] for shape in self.best.abstract.shapes} | {*self.best.abstract.shapes}
        same = all(
            shape in kinds or (shape[0] == layers and shape[1:] in kinds)
            for shape in candidate.abstract.shapes
        )
        return same and self._works(candidate)

    def _works(self, candidate: Candidate) -> bool:
        """Return whether a class does the same with its inputs, and gives the same, words apart."""
        return candidate.abstract.indexes_within and not find_difference(
            self.full, candidate, self.texts
        )


def _numbers(size: Any) -> tuple[int, ...]:
    """Return the numbers of a size, which may be several."""
    return size if isinstance(size, tuple) else (size,)


def _divide(size: Any, factor: int) -> Any:
    """Return a width divided by `factor`; of several sizes, the wide ones are."""
    if isinstance(size, tuple):
        return tuple(n // factor if n >= WIDTH else n for n in size)
    return size // factor
