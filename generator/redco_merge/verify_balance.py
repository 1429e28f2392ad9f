"""The check that what each side added is in a merge, and what each deleted is not, wherever it moves.

It counts what statements say and which names are defined, at any depth and in any layout: to wrap,
to move or to rename what the other side deleted brings it back, and is a fault.
"""

import io
import tokenize
from collections import Counter
from collections.abc import Iterator

from redco_merge.verify_ledger import Ledger, read_ledger

# What says nothing of its own: to have it in two places is no sign that one was moved.
_EMPTY = frozenset(
    {"", "pass", "...", "else:", "return", "return None", "continue", "break", "raise"}
)


def balance_faults(base: bytes, ours: bytes, theirs: bytes, result: bytes) -> Iterator[str]:
    """Yield what a merge has too often: deleted by one side, and back; or defined twice.

    Raises where a side is not Python.
    """
    b, o, t, r = (read_ledger(x) for x in (base, ours, theirs, result))
    for said, times in r.says.items():
        if o.says[said] < b.says[said] and said not in _EMPTY:
            if times > max(o.says[said], o.says[said] + t.says[said] - b.says[said]):
                yield f"the user deleted this, and it is back: {said[:60]}"


def name_faults(base: bytes, ours: bytes, theirs: bytes, result: bytes) -> Iterator[str]:
    """Yield the names that a merge lacks, has twice, or has again where the user deleted them.

    Raises where a side is not Python.
    """
    b, o, t, r = (read_ledger(x) for x in (base, ours, theirs, result))
    for name in r.defines:
        if o.defines[name] < b.defines[name] and r.defines[name] > _most(b, o, t, name):
            yield f"the user deleted {name}, and it is back"
    for path, times in r.paths.items():
        if times > max(1, o.paths[path], t.paths[path]):
            yield f"{path}: defined {times} times"
    for name in r.imported & r.paths.keys():
        if not any(name in side.imported and name in side.sources for side in (o, t)):
            yield f"{name}: one side imports it, the other defines it"
    if lacking := r.unbound - o.unbound - t.unbound:
        yield f"not defined: {', '.join(sorted(lacking))}"
    if lacking := r.dangling - o.dangling - t.dangling:
        yield f"not defined: {', '.join('.' + x for x in sorted(lacking))}"


def _most(b: Ledger, o: Ledger, t: Ledger, name: str) -> int:
    """Return how often a merge may define a name."""
    return max(o.defines[name], o.defines[name] + t.defines[name] - b.defines[name])


def _bounds(base: int, ours: int, theirs: int) -> list[int]:
    """Return the least and the most that a merge may have of what the sides have so often.

    What one side left alone is as often as the other has it.
    """
    if base in (ours, theirs):
        return [ours + theirs - base]
    return [ours, theirs, ours + theirs - base]


def _residue_faults(
    b: Counter[str], o: Counter[str], t: Counter[str], r: Counter[str]
) -> Iterator[str]:
    """Yield what a merge says too often, or too rarely.

    A statement that both sides edited may be there once, in place of what each made of it: then
    each word of the file is there as often as both edits together make it.
    """
    lost: Counter[str] = Counter()
    extra: Counter[str] = Counter()
    for said in b.keys() | o.keys() | t.keys() | r.keys():
        bounds = _bounds(b[said], o[said], t[said])
        lost[said] = max(0, min(bounds) - r[said])
        extra[said] = max(0, r[said] - max(bounds)) if said not in _EMPTY else 0
    if not +lost and not +extra:
        return
    if extra.total() > lost.total():
        yield f"too often: {next(iter(+extra))[:60]}"
    new = [Counter(said.split()) for said in r if r[said] > b[said]]
    gone = [x for x in (lost - (b + t)).elements() if not any(Counter(x.split()) <= y for y in new)]
    if len(gone) > extra.total():  # those are in the place of what both edited
        yield f"the user's is lost: {gone[0][:60]}"
    words = [Counter(w for x in side.elements() for w in x.split()) for side in (b, o, t, r)]
    for word in words[3].keys() | words[1].keys() | words[2].keys():
        before, mine, other, now = (side[word] for side in words)
        bounds = _bounds(before, mine, other)
        if not min(bounds) <= now <= max(bounds):
            yield f"lost or too often: {word}"


def _comments(data: bytes) -> Counter[str]:
    """Return the comments of a file, without their marks and blanks, and how often each is there."""
    tokens = tokenize.tokenize(io.BytesIO(data).readline)
    return Counter(x.string.strip("# \t") for x in tokens if x.type == tokenize.COMMENT)


def line_faults(
    base: bytes, ours: bytes, theirs: bytes, result: bytes, owned: tuple[str, ...]
) -> Iterator[str]:
    """Yield what is wrong with a merge that holds all changes of both sides, and no conflict.

    owned: symbols that only the user may change once edited.
    Raises where a side is not Python.
    """
    yield from balance_faults(base, ours, theirs, result)
    yield from name_faults(base, ours, theirs, result)
    b, o, t, r = (read_ledger(x) for x in (base, ours, theirs, result))
    for said, times in r.outside.items():
        if times > max(o.outside[said], t.outside[said]) > b.outside[said]:
            both = min(o.outside[said], t.outside[said]) > b.outside[said]
            if both and not said.endswith("TYPE_CHECKING :"):
                yield f"both added it, and it is there {times} times: {said[:60]}"
    for path, sources in r.sources.items():
        if len(sources) > max(1, *(len(side.sources.get(path, ())) for side in (o, t))):
            yield f"{path}: defined {len(sources)} times"
    yield from _residue_faults(b.says, o.says, t.says, r.says)
    for binding in b.imports.keys() | o.imports.keys() | t.imports.keys() | r.imports.keys():
        bounds = _bounds(b.imports[binding], o.imports[binding], t.imports[binding])
        most = o.imports[binding] + t.imports[binding]  # to import twice does no harm
        if not min(bounds) <= r.imports[binding] <= most:
            yield f"an import that is not the sides': {binding}"
    said_b, said_o, said_t, said_r = (_comments(x) for x in (base, ours, theirs, result))
    for lost in ((said_o - said_b - said_t) | (said_t - said_b - said_o)) - said_r:
        yield f"a comment is lost: {lost[:60]}"
    for path in owned:
        edited = o.sources.get(path) != b.sources.get(path)
        if edited and t.sources.get(path) not in (b.sources.get(path), o.sources.get(path)):
            yield f"{path}: it is the user's"
