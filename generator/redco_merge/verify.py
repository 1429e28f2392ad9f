"""Independent checks of a merge of Python files, and of an edit of one symbol.

They read the files themselves, trust nothing that the merge says, and share no code with it. They count what statements say and which
names are defined, at any depth and in any layout: to wrap, to move or to rename what the other side deleted brings it back, and is a fault.
"""

import codecs
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from redco_merge.result import Conflict, MergeResult
from redco_merge.verify_blocks import block_faults
from redco_merge.verify_ledger import (
    Ledger,
    count_words,
    decode_code,
    encoding_of,
    read_ledger,
    read_renamed,
    with_old_names,
)
from redco_merge.verify_text import text_faults

# What says nothing of its own: to have it in two places is no sign that one was moved.
_EMPTY = frozenset(
    {"", "pass", "...", "else:", "return", "return None", "continue", "break", "raise"}
)


def merge_faults(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    result: bytes,
    owned: Collection[str] = (),
    apart: bool = False,
) -> list[str]:
    """Return what is wrong with a merge of all that both sides changed, without a conflict.

    owned: symbols that only the user may change once edited.
    apart: whether the sides changed different lines, with others between them.
    Raises where a side cannot be read.
    """
    if faults := list(_bytes_faults(ours, result)):
        return faults
    if not _compiles(decode_code(result)):
        return ["the result is not Python"]
    b, o, t, r = (read_ledger(x) for x in (base, ours, theirs, result))
    faults = [*_name_faults(b, o, t, r), *_owned_faults(b, o, t, owned)]
    if apart:
        return [*text_faults(base, ours, theirs, MergeResult(result)), *faults]
    return [*faults, *_line_faults(b, o, t, r), *block_faults(base, ours, theirs, result)]


def _bytes_faults(ours: bytes, result: bytes) -> Iterator[str]:
    """Yield what is wrong with the encoding and the line endings of `result`."""
    if encoding_of(ours) != encoding_of(result):
        yield "the encoding is another"
    if ours.startswith(codecs.BOM_UTF8) != result.startswith(codecs.BOM_UTF8):
        yield "the byte order mark is another"
    if ours and result and ours.endswith(b"\n") != result.endswith(b"\n"):
        yield "the end of the last line is another"
    endings, own_endings = (set(re.findall(rb"\r?\n", side)) for side in (result, ours))
    if b"\n" in ours and not endings <= own_endings:
        yield "a line ending that the file had not"


def _compiles(text: str) -> bool:
    try:
        compile(text, "<merge>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _name_faults(b: Ledger, o: Ledger, t: Ledger, r: Ledger) -> Iterator[str]:
    """Yield the names that a merge lacks, has twice, or has again where the user deleted them."""
    for name in r.defines:
        most = max(o.defines[name], o.defines[name] + t.defines[name] - b.defines[name])
        if o.defines[name] < b.defines[name] and r.defines[name] > most:
            yield f"the user deleted {name}, and it is back"
    yield from _twice(r, o, t)
    if lacking := r.unbound - o.unbound - t.unbound:
        yield f"not defined: {', '.join(sorted(lacking))}"
    if lacking := r.dangling - o.dangling - t.dangling:
        yield f"not defined: {', '.join('.' + x for x in sorted(lacking))}"


def _twice(r: Ledger, *sides: Ledger) -> Iterator[str]:
    """Yield the names that are defined or imported more often than on one of the sides."""
    for path, times in r.paths.items():
        if times > max(1, *(side.paths[path] for side in sides)):
            yield f"{path}: defined {times} times"
    for name, origins in r.imported_from.items():
        if len(origins) > max(1, *(len(side.imported_from.get(name, ())) for side in sides)):
            yield f"{name}: imported from {len(origins)} places"
    for name in r.imported & r.paths.keys():
        if not any(name in side.imported and name in side.sources for side in sides):
            yield f"{name}: one side imports it, the other defines it"


def _owned_faults(b: Ledger, o: Ledger, t: Ledger, owned: Collection[str]) -> Iterator[str]:
    for path in owned:
        before, mine, others = (side.sources.get(path) for side in (b, o, t))
        if mine != before and others not in (before, mine):
            yield f"{path}: it is the user's"


def _line_faults(b: Ledger, o: Ledger, t: Ledger, r: Ledger) -> Iterator[str]:
    """Yield what a merge says too often or too rarely: statements, definitions, imports and comments."""
    for said, times in r.says.items():
        if o.says[said] < b.says[said] and said not in _EMPTY:
            if times > max(o.says[said], o.says[said] + t.says[said] - b.says[said]):
                yield f"the user deleted this, and it is back: {said[:60]}"
    for said, times in r.outside.items():
        if times > max(o.outside[said], t.outside[said]) > b.outside[said]:
            both = min(o.outside[said], t.outside[said]) > b.outside[said]
            if both and not said.endswith("TYPE_CHECKING :"):
                yield f"both added it, and it is there {times} times: {said[:60]}"
    for path, sources in r.sources.items():
        if len(sources) > max(1, *(len(side.sources.get(path, ())) for side in (o, t))):
            yield f"{path}: defined {len(sources)} times"
    yield from _residue_faults(b.says, o.says, t.says, r.says)
    for binding in b.imports | o.imports | t.imports | r.imports:
        bounds = _bounds(b.imports[binding], o.imports[binding], t.imports[binding])
        most = o.imports[binding] + t.imports[binding]  # to import twice does no harm
        if not min(bounds) <= r.imports[binding] <= most:
            yield f"an import that is not the sides': {binding}"
    for said in b.comments | o.comments | t.comments | r.comments:
        counts = o.comments[said], t.comments[said], o.comments[said] + t.comments[said]
        bounds = [counts[0], counts[1], counts[2] - b.comments[said]]
        if not min(bounds) <= r.comments[said] <= max(bounds):
            yield f"a comment is lost, or there too often: {said[:60]}"
    for lost in (
        (o.comments - b.comments - t.comments) | (t.comments - b.comments - o.comments)
    ) - r.comments:
        yield f"a comment is lost: {lost[:60]}"


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


class Terms(NamedTuple):
    """The files that a merge without conflict is made of.

    base: the template's former text, in the user's layout and names.
    ours: the user's file, and imports that the template's new code uses.
    theirs: the template's text in the user's layout and names, without what is in conflict.
    """

    base: bytes
    ours: bytes
    theirs: bytes


def told_faults(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    terms: Terms,
    conflicts: Sequence[Conflict],
    owned: Collection[str] = (),
    renames: dict[str, str] | None = None,
) -> Iterator[str]:
    """Yield what the files that were merged have or lack, beside the three that there are, of which nobody is told.

    owned: symbols, by the user's names, whose conflicts are pending.
    renames: old -> new, as the user renamed.
    Raises where a side cannot be read.
    """
    names = renames or {}
    for x in conflicts:
        if x.pending != (x.symbol in owned):
            yield f"{x.symbol}: told as if it were owned, or were not"
    b, t, before, left = (read_renamed(x, names) for x in (base, theirs, terms.base, terms.theirs))
    o, own = read_ledger(ours), read_ledger(terms.ours)
    if back := names.keys() & (own.defines | read_ledger(terms.theirs).defines).keys():
        yield f"the old name is back: {', '.join(sorted(back))}"
    for old, new in ((b, before), (o, own)):
        if (old.symbols, old.comments) != (new.symbols, new.comments) or old.imports - new.imports:
            yield "merged from another text"
        if [x for x in new.imports - old.imports if x not in b.imports or x not in t.imports]:
            yield "an import that nobody wrote"
    yield from _twice(left, b, t)
    told = {with_old_names(x.symbol, names): with_old_names(x.theirs, names) for x in conflicts}
    for path in t.symbols.keys() | left.symbols.keys():
        was, has, mine, now = (x.symbols.get(path, Counter()) for x in (b, t, o, left))
        texts = [text for name, text in told.items() if _holds(name, path)]
        if now - has - was or (now - has and not texts):
            yield f"nobody wrote it, or the template removes it: {path}"
        if _not_in((has - now - (mine - was)).elements(), texts):
            yield f"the template's change is dropped: {path}"
    lost = {alias for _, _, alias in t.imports - left.imports}
    if lost := {x for x in lost if not any(_has_word(y, x) for y in [*told, *told.values()])}:
        yield f"the template's import is dropped: {', '.join(lost)}"
    if _not_in((t.comments - left.comments).elements(), list(told.values())):
        yield "a comment of the template's is dropped"
    if left.comments - t.comments - b.comments or [*(left.imports - t.imports - b.imports)]:
        yield "a comment or an import that nobody wrote"


def _has_word(text: str, word: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text))


def _holds(symbol: str, path: str) -> bool:
    """Return whether a conflict of a symbol may tell what a path lost; what has no name is told by any."""
    nameless = not path or path.endswith(".")
    return nameless or path in symbol.split("; ") or path.startswith(f"{symbol}.")


def _not_in(said: Iterator[str], texts: Sequence[str]) -> bool:
    """Return whether the texts lack a word of what is said."""
    words = [word for x in said for word in x.split()]
    return bool(count_words(" ".join(words)) - count_words("\n".join(texts)))


class Edit(NamedTuple):
    """An edit of one symbol of the user's file, to be as in another file.

    symbol: its path in the user's file, or in the template.
    whole: whether its members may change with it.
    mine: its text in the user's file.
    new: its text in the other file.
    names: old -> new, as the user renamed; in what is compared, all have the old.
    """

    symbol: str
    whole: bool
    mine: str
    new: str
    names: dict[str, str]


def edit_faults(ours: bytes, other: bytes, result: bytes, edit: Edit) -> Iterator[str]:
    """Yield what is wrong with `result`: ours, with a symbol or a part of it as in `other`.

    Raises where a side cannot be read.
    """
    yield from _bytes_faults(ours, result)
    o, x, r = (read_renamed(side, edit.names) for side in (ours, other, result))
    symbol, mine, new = (with_old_names(y, edit.names) for y in (edit.symbol, edit.mine, edit.new))
    for path in o.symbols.keys() | r.symbols.keys():
        before, after = (side.symbols.get(path, Counter()) for side in (o, r))
        if before == after:
            continue
        scope = path.removesuffix(".")
        if scope and scope != symbol and not (edit.whole and path.startswith(f"{symbol}.")):
            yield f"{path}: changed with {symbol}"
        elif scope and after != x.symbols.get(path, Counter()):
            yield f"{path}: neither yours nor the template's"
    for old, now in ((o.says, r.says), (o.comments, r.comments)):
        if _not_in((old - now).elements(), [mine]) or _not_in((now - old).elements(), [new]):
            yield f"lost, or nobody wrote it, beside {symbol}"
    if (o.imports - r.imports) + (r.imports - o.imports):
        yield "an import is changed"
    yield from _twice(r, o, x)
    for path, sources in r.sources.items():
        if len(sources) > max(1, *(len(side.sources.get(path, ())) for side in (o, x))):
            yield f"your file has its own {path}"
