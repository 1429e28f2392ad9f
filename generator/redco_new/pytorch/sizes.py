"""Numbers of a program as expressions of the sizes that a class is made with.

A number is observed several times: in each probe, and for each instance of its class. It is the
simplest expression of names in scope that has its value each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, permutations
from operator import add, mul

from redco_new.pytorch.expressions import literal

ROUNDING = 1e-7  # of a number that a class keeps in float32
LARGEST = 1023  # a power of two that a float has
SEVERAL = 4  # times that a size is within another beside a third: keys and values, gates and inputs
Values = tuple[int | float, ...]
Pair = tuple[str, list[float]]  # an expression, and its value each time


@dataclass(frozen=True)
class Number:
    """A number of a program, as it was each time."""

    values: Values


@dataclass(frozen=True)
class Atom:
    """What a number can be made of: an expression, as Python, and its value each time.

    is_attribute: whether the class's author has it as one of self
    """

    text: str
    values: Values
    is_attribute: bool = False


def express(number: Number, scope: Sequence[Atom]) -> str | None:
    """Return the simplest expression of `scope` that is `number` each time; None where there is none."""
    values = number.values
    if _equal(values[:1] * len(values), values):  # as the author computes it, of other numbers
        return literal(values[0])
    for text, candidate in _expressions(number, scope):
        if _equal(candidate, values):
            root = isinstance(candidate[0], float) and isinstance(values[0], int)
            return f"round({text})" if root else text
    return next(_by_place(number, scope), None)


def exactly(number: Number, scope: Sequence[Atom]) -> str | None:
    """Return the literal or the name that is `number` each time; None where there is none."""
    if len(set(number.values)) == 1:
        return literal(number.values[0])
    return next((atom.text for atom in scope if _equal(atom.values, number.values)), None)


def _equal(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(math.isclose(x, y, rel_tol=ROUNDING) for x, y in zip(one, other, strict=True))


def _expressions(number: Number, scope: Sequence[Atom]) -> Iterator[Pair]:
    """Yield candidates (text, values), the simplest first; a size is made of sizes alone.

    A square, or two sizes, and a constant come after three sizes: a constant that is chosen for one value makes another one by chance,
    about as often as not, among so many pairs.
    """
    scope = _distinct(scope)
    rates = [atom for atom in scope if not _are_whole(atom.values)]
    if _are_whole(number.values):
        scope = [atom for atom in scope if _are_whole(atom.values)]
    yield from ((atom.text, list(atom.values)) for atom in scope)
    yield from (pair for atom in scope for pair in _with_constant(number, atom))
    all_pairs = [(*x, True) for a, b in combinations(scope, 2) for x in _commutative(a, b)]
    all_pairs += [x for a, b in permutations(scope, 2) for x in _ordered(a, b)]
    yield from ((text, values) for text, values, _ in all_pairs)
    # What is within another expression is a whole part of a size: by others any small number is said by chance.
    pairs = [(text, values) for text, values, is_whole in all_pairs if is_whole]
    if _are_whole(number.values):
        yield from _at_rates(number, scope, rates)
    for text, values in pairs:  # of queries and keys with values and gates
        for n in range(2, SEVERAL + 1) if _are_whole((*number.values, *values)) else ():
            yield f"{n} * ({text})", [n * x for x in values]
    for one in scope:
        yield from _with_several(number, one, scope)
    for atom in scope:
        yield from _roots(atom)
    for a, b in permutations(scope, 2):
        yield from _logarithms(number, a, b)
        yield from _times(number, a, b)
    quotients = [Atom(f"({text})", tuple(values)) for text, values in pairs if " // " in text]
    squares = [square for atom in (*scope, *quotients) for square in _squares(atom)]
    yield from ((square.text, list(square.values)) for square in squares)
    for atom in (*scope, *quotients) if _are_whole(number.values) else ():
        square = Atom(f"{atom.text} ** 2", tuple(x * x for x in atom.values))
        yield from _with_several(number, square, scope)  # as of pairs of kinds beside distances
    for atom in scope:
        yield from _roots_of_parts(number, atom)
    parts = [Atom(f"({text})", tuple(values)) for text, values in pairs]
    for part in parts:
        yield from _roots(part)
    for rate in rates if not _are_whole(number.values) else ():
        for text, values in (x for atom in (*scope, *parts) for x in _roots(atom) if "**" in x[0]):
            yield f"{rate.text} * {text}", _zip(mul, rate.values, values)
    for atom in scope:
        yield from _of_positions(number, atom)
    for square in squares:  # as of the channels of a patch
        yield from (
            (f"{square.text} * {x.text}", _zip(mul, square.values, x.values)) for x in scope
        )
    yield from _of_three(pairs, scope)
    products = [Atom(text, tuple(values)) for text, values in pairs if " * " in text]
    products += quotients
    for one in [*scope, *products]:
        yield from _with_several(number, one, [*scope, *products])
    for square in squares:
        yield from _with_constant(number, square)
    for text, values in pairs:
        yield from _with_constant(number, Atom(f"({text})", tuple(values)))


def _of_three(pairs: Sequence[Pair], scope: Sequence[Atom]) -> Iterator[Pair]:
    """Yield what two sizes make and a third one."""
    for text, values in pairs:
        for atom in scope:
            yield f"{text} + {atom.text}", _zip(add, values, atom.values)
            factor = text if " * " in text or " // " in text else f"({text})"
            yield f"{factor} * {atom.text}", _zip(mul, values, atom.values)


def _by_place(number: Number, scope: Sequence[Atom]) -> Iterator[str]:
    """Yield a number as one of several, each of a layer by its place."""
    for atom in scope:
        pairs = dict(zip(atom.values, number.values, strict=True))
        places = range(len(pairs))
        runs = [len([*run]) for _, run in groupby(atom.values)]
        if (
            len(pairs) > 1
            and min(runs) > 1  # the place of a layer is the same in all probes, a size is not
            and pairs.keys() == {*places}
            and _equal(number.values, [pairs[i] for i in atom.values])
        ):
            yield f"({', '.join(repr(pairs[i]) for i in places)})[{atom.text}]"


def _are_whole(values: Values) -> bool:
    return all(isinstance(x, int) for x in values)


def _distinct(scope: Sequence[Atom]) -> list[Atom]:
    """Return the atoms that vary, the first of equal ones."""
    first: dict[Values, Atom] = {}
    for atom in scope:
        if len(set(atom.values)) > 1:
            first.setdefault(atom.values, atom)
    return list(first.values())


def _with_constant(number: Number, atom: Atom) -> Iterator[Pair]:
    """Yield the atom and one constant, which the first value decides."""
    wanted, base = number.values[0], atom.values[0]
    if not _are_whole((*number.values, *atom.values)):
        if base:
            factor = round(wanted / base, 9)
            yield f"{factor!r} * {atom.text}", [factor * x for x in atom.values]
        if all(atom.values):
            constant = round(wanted * base, 9)
            yield f"{constant!r} / {atom.text}", [constant / x for x in atom.values]
        yield f"1 - {atom.text}", [1 - x for x in atom.values]
        return
    if base and wanted % base == 0:
        factor = wanted // base
        text = f"{factor} * {atom.text}" if factor != -1 else f"-{atom.text}"
        yield text, [factor * x for x in atom.values]
    if wanted and base // wanted > 1:
        divisor = base // wanted
        yield f"{atom.text} // {divisor}", [x // divisor for x in atom.values]
    shift = int(wanted - base)
    sign = "+" if shift > 0 else "-"
    yield f"{atom.text} {sign} {abs(shift)}", [x + shift for x in atom.values]
    yield f"{wanted + base} - {atom.text}", [wanted + base - x for x in atom.values]


def _with_several(number: Number, one: Atom, others: Sequence[Atom]) -> Iterator[Pair]:
    """Yield an atom and several times another one, as of queries, keys and values in one matrix."""
    values = (*number.values, *one.values)
    rest = number.values[0] - one.values[0]
    if not _are_whole(values) or rest <= 0:
        return
    for other in others:
        base = other.values[0]
        if isinstance(base, int) and base and rest % base == 0 and rest // base <= SEVERAL:
            n = rest // base
            text = f"{one.text} + {n} * {other.text}" if n > 1 else f"{one.text} + {other.text}"
            multiple = [n * x for x in other.values]
            yield text, _zip(add, one.values, multiple)


def _at_rates(number: Number, scope: Sequence[Atom], rates: Sequence[Atom]) -> Iterator[Pair]:
    """Yield the whole part of sizes, or of a constant, times a rate: a width within."""
    for rate in rates:
        constant = round(number.values[0] / rate.values[0]) if rate.values[0] else 0
        yield f"int({constant} * {rate.text})", [int(constant * x) for x in rate.values]
        for atom in scope:
            products = _zip(mul, atom.values, rate.values)
            yield f"int({atom.text} * {rate.text})", [int(x) for x in products]


def _commutative(a: Atom, b: Atom) -> Iterator[Pair]:
    yield f"{a.text} * {b.text}", _zip(mul, a.values, b.values)
    yield f"{a.text} + {b.text}", _zip(add, a.values, b.values)


def _ordered(a: Atom, b: Atom) -> Iterator[tuple[str, list[float], bool]]:
    """Yield (text, values, whether it is no part of a division that leaves something)."""
    if all(isinstance(y, int) and y for y in b.values):
        quotients = _zip(lambda x, y: x // y, a.values, b.values)
        divides = a.values[0] % b.values[0] == 0  # as the user has them
        yield f"{a.text} // {b.text}", quotients, divides
        if 0 in quotients and _are_whole(a.values):  # of groups of a width, one at the least
            yield f"max(1, {a.text} // {b.text})", [max(1, x) for x in quotients], False
    yield f"{a.text} - {b.text}", _zip(lambda x, y: x - y, a.values, b.values), True
    if _are_whole(a.values) and all(isinstance(y, int) and y for y in b.values):  # up to chunks
        yield f"-{a.text} % {b.text}", _zip(lambda x, y: -x % y, a.values, b.values), False


def _squares(atom: Atom) -> Iterator[Atom]:
    """Yield the square of an atom, as of patches along two sides, and of how far two of them are apart."""
    if _are_whole(atom.values):
        apart = Atom(f"(2 * {atom.text} - 1)", tuple(2 * x - 1 for x in atom.values))
        for one in (atom, apart):
            yield Atom(f"{one.text} ** 2", tuple(x * x for x in one.values))


def _of_positions(number: Number, atom: Atom) -> Iterator[Pair]:
    """Yield what positions are said by: waves, each a power slower of one less than half of a width; buckets of distances; slopes of heads, powers of two."""
    wanted, base = number.values[0], atom.values[0]
    if not _are_whole(atom.values) or min(atom.values) < 4:
        return
    yield f"{atom.text} // 2 - 1", [x // 2 - 1 for x in atom.values]  # the last of those before
    # of buckets of distances, on one side or on both, those that are far
    yield f"{atom.text} - {atom.text} // 2", [x - x // 2 for x in atom.values]
    yield f"{atom.text} // 2 - {atom.text} // 4", [x // 2 - x // 4 for x in atom.values]
    constant = round(wanted * (base // 2 - 1), 9)
    yield f"{constant!r} / ({atom.text} // 2 - 1)", [constant / (x // 2 - 1) for x in atom.values]
    power = round(math.log2(wanted) * base, 6) if wanted > 0 else 0.5
    if power.is_integer() and abs(power) < LARGEST * min(atom.values):
        yield f"2 ** ({int(power)} / {atom.text})", [2 ** (power / x) for x in atom.values]


def _logarithms(number: Number, a: Atom, b: Atom) -> Iterator[Pair]:
    """Yield the logarithm of how many times a part of one size is in another, as of buckets of distances."""
    if _are_whole(number.values) or not _are_whole((*a.values, *b.values)):
        return
    part = a.values[0] / math.exp(min(number.values[0], 700))
    times = round(b.values[0] / part) if part > 0.5 else 0
    parts = [x // times for x in b.values] if times else [0]
    if min(*parts, *a.values) > 0:
        text = f"{b.text} // {times}" if times > 1 else b.text
        pairs = zip(a.values, parts, strict=True)
        yield f"math.log({a.text} / ({text}))", [math.log(x / y) for x, y in pairs]


def _times(number: Number, a: Atom, b: Atom) -> Iterator[Pair]:
    """Yield how many times a size is within another, and the root of that, as of what is scaled where a width becomes another one."""
    if _are_whole(number.values) or not _are_whole((*a.values, *b.values)) or min(b.values) <= 0:
        return
    times = _zip(lambda x, y: x / y, a.values, b.values)
    yield f"{a.text} / {b.text}", times
    if min(times) > 0:
        yield f"({a.text} / {b.text}) ** 0.5", [x**0.5 for x in times]


def _roots(atom: Atom) -> Iterator[Pair]:
    if all(x > 0 for x in atom.values):
        yield f"{atom.text} ** -0.5", [x**-0.5 for x in atom.values]
        yield f"{atom.text} ** 0.5", [x**0.5 for x in atom.values]
        yield f"{atom.text} ** -0.25", [x**-0.25 for x in atom.values]
        yield f"1 / {atom.text}", [1 / x for x in atom.values]


def _roots_of_parts(number: Number, atom: Atom) -> Iterator[Pair]:
    """Yield a root of one over a part of a size, as of heads that attend with half of what they hold; and of a size over a width that is none of the class's."""
    wanted, base = number.values[0], atom.values[0]
    if wanted <= 0 or min(atom.values) <= 0:
        return
    if wanted < 1 and 1 < (n := round(base * wanted**2)) <= SEVERAL:
        yield f"({atom.text} / {n}) ** -0.5", [(x / n) ** -0.5 for x in atom.values]
    if wanted < 1 and 1 < (n := round(1 / (base * wanted**2))) <= SEVERAL:
        yield f"({n} * {atom.text}) ** -0.5", [(n * x) ** -0.5 for x in atom.values]
    if (n := round(base / wanted**2)) > 1:
        yield f"({atom.text} / {n}) ** 0.5", [(x / n) ** 0.5 for x in atom.values]


def _zip(function, one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [function(x, y) for x, y in zip(one, other, strict=True)]
