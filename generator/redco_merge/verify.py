"""Independent checks of a merge of Python files, and of an edit of one symbol.

They read the files themselves, trust nothing that the merge says, and share no code with it.
"""

import codecs
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from redco_merge.result import MergeResult
from redco_merge.verify_balance import balance_faults, line_faults, name_faults
from redco_merge.verify_blocks import block_faults
from redco_merge.verify_text import text_faults
from redco_merge.verify_pieces import (
    Pieces,
    Words,
    compiles,
    count_words,
    decode_code,
    defined_names,
    encoding_of,
    path_with_old_name,
    read_pieces,
    undefined_names,
    used_names,
    with_old_names,
)


def merge_faults(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    merged: MergeResult,
    owned: tuple[str, ...] = (),
    renames: Mapping[str, str] | None = None,
) -> list[str]:
    """Return what is wrong with `merged`; nothing if it is right.

    Something of the user's is lost, or of the template's neither in it nor in a conflict; it holds
    something that neither wrote; the file is broken.
    renames: old -> new, as the user renamed.
    Raises where a side cannot be read.
    """
    faults = list(_bytes_faults(ours, merged.content))
    if faults:
        return faults
    names = dict(renames or {})
    if not compiles(decode_code(merged.content)) and compiles(decode_code(ours)):
        return ["the result is not Python"]
    if back := names.keys() & defined_names(decode_code(merged.content)):
        return [f"the old name is back: {', '.join(sorted(back))}"]
    old_owned = tuple(path_with_old_name(x, names) for x in owned)
    conflicts: dict[str, Words] = defaultdict(Counter)
    for x in merged.conflicts:
        symbol = path_with_old_name(x.symbol, names)
        conflicts[symbol] += count_words(with_old_names(x.theirs, names))
        if x.pending != (symbol in old_owned):
            return [f"{symbol}: told as if it were owned, or were not"]
    b, o, t, r = (read_pieces(x, names) for x in (base, ours, theirs, merged.content))
    sides = base, ours, theirs, merged.content
    returned = () if names else (*balance_faults(*sides), *name_faults(*sides))
    return [*_Check(b, o, t, r, conflicts, old_owned).faults(), *returned]


def line_merge_faults(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    result: bytes,
    owned: tuple[str, ...],
    apart: bool = False,
) -> list[str]:
    """Return what is wrong with a merge of all lines that both sides changed, without a conflict.

    apart: whether the sides changed different lines, with others between them.
    Raises where a side cannot be read.
    """
    if faults := list(_bytes_faults(ours, result)):
        return faults
    if not compiles(decode_code(result)):
        return ["the result is not Python"]
    if apart:
        counts = text_faults(base, ours, theirs, MergeResult(result))
        return [*counts, *name_faults(base, ours, theirs, result)]
    blocks = block_faults(base, ours, theirs, result)
    return [*line_faults(base, ours, theirs, result, owned), *blocks]


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


@dataclass(frozen=True)
class _Check:
    """The check of a merge, piece by piece.

    b: base.
    o: ours.
    t: theirs.
    r: the result.
    conflicts: the words of each conflict; the template's changes there may be missing.
    owned: symbols that only the user may change once edited.
    """

    b: Pieces
    o: Pieces
    t: Pieces
    r: Pieces
    conflicts: Mapping[str, Words]
    owned: Collection[str]

    def faults(self) -> Iterator[str]:
        """Yield all that is wrong."""
        files = self.b, self.o, self.t, self.r
        for path in sorted({path for x in files for path in x.words}):
            if wrong := self.user_side(path) or self.template_side(path) or self.both_sides(path):
                yield f"{path}: {wrong}"
        for scope in sorted({scope for x in files for scope in x.rest}):
            yield from self.between(scope)
        yield from self.imports()
        yield from self.names()

    def is_in_conflict(self, path: str) -> bool:
        """Return whether a conflict holds the template's side of a symbol."""
        wanted = self.t.words.get(path, Counter())
        return any(
            not wanted - words
            for name, words in self.conflicts.items()
            if path == name or path.startswith(name + ".")
        )

    def user_side(self, path: str) -> str | None:
        """Find lost text of the user's, or a deletion of the user's undone."""
        b, o, t, r = (path in x.words for x in (self.b, self.o, self.t, self.r))
        edited = not self.o.same(path, self.b)
        if not o:
            return "the user deleted it, and it is back" if b and r else None
        if not r:
            name = path.rpartition(".")[2]
            used = "." in path and self.r.attributes[name] > self.t.attributes[name]
            return "the user's symbol is gone" if edited or t or used else None
        final = not t or self.t.same(path, self.b) or (edited and path in self.owned)
        if final and not self.r.same(path, self.o):
            return "only the user may change it, and it is changed"
        return None

    def template_side(self, path: str) -> str | None:
        """Find a change of the template that is neither in the result nor in a conflict."""
        changed = not self.t.same(path, self.b)
        if not changed or self.is_in_conflict(path) or self.r.same(path, self.t):
            return None
        if path not in self.t.words:
            return "the template removes it, and nobody is told why it stays"
        if path not in self.b.words or path not in self.o.words or self.o.same(path, self.b):
            return "the template's change is dropped"
        return None

    def both_sides(self, path: str) -> str | None:
        """Compare what a symbol says, word by word."""
        if path not in self.r.words:
            return None
        b, o, t, r = (x.words.get(path, Counter()) for x in (self.b, self.o, self.t, self.r))
        return _miscounted(b, o, t, r, conflict=self.is_in_conflict(path))

    def between(self, scope: str) -> Iterator[str]:
        """Compare comments and statements without a name."""
        b, o, t, r = (x.rest[scope] for x in (self.b, self.o, self.t, self.r))
        if wrong := _miscounted(b, o, t, r, conflict=bool(self.conflicts)):
            yield f"{scope or 'between the symbols'}: {wrong}"

    def imports(self) -> Iterator[str]:
        """Compare what the files import."""
        b, o, t, r = (x.imports for x in (self.b, self.o, self.t, self.r))
        star = any(name == "*" for _, name, _ in r)
        used = set() if star else used_names(self.r.text)
        moved = {alias for _, _, alias in r & t}  # the template takes the name from elsewhere
        for binding in sorted(o - r):
            if binding not in b - t or binding[2].partition(".")[0] in used - moved:
                yield f"the user's import is lost: {binding}"
        for binding in sorted(r - o - t):
            yield f"nobody imports: {binding}"
        for binding in sorted((b & o & r) - t):
            if not star and binding[2].partition(".")[0] not in used and not self.conflicts:
                yield f"the template's removal is dropped: {binding}"
        own_names = {name for _, _, name in b | o} | set(self.o.definitions)
        for binding in sorted((t - b) - r):
            told = any(binding[2] == name.rpartition(".")[2] for name in self.conflicts)
            if not told and (binding[2] not in own_names or not self.conflicts):
                yield f"the template's import is dropped: {binding}"

    def names(self) -> Iterator[str]:
        """Yield a name that is defined twice, or not at all."""
        o, t, r = self.o.definitions, self.t.definitions, self.r.definitions
        for name in sorted(name for name in r if r[name] > max(1, o[name], t[name])):
            yield f"{name}: defined {r[name]} times"
        o_lacks, t_lacks, r_lacks = (undefined_names(x.text) for x in (self.o, self.t, self.r))
        lacking = r_lacks - o_lacks - t_lacks
        if unexplained := sorted(x for x in lacking if x not in self.conflicts or x in o):
            yield f"not defined: {', '.join(unexplained)}"


def _miscounted(b: Words, o: Words, t: Words, r: Words, conflict: bool) -> str | None:
    """Return the first word that the result has too often or too rarely; None if there is none.

    A word whose count one side left alone has the other side's count; one that both changed lies
    between what they agree on and the sum of the changes.
    conflict: the template's side may be missing.
    """
    for word in b | o | t | r:
        if t[word] == b[word]:
            bounds = [o[word]]
        elif o[word] == b[word]:
            bounds = [t[word], o[word]] if conflict else [t[word]]
        else:
            both = o[word] + t[word] - b[word]
            bounds = [o[word], both] if conflict else [o[word], t[word], both]
        if r[word] < min(bounds):
            return f"lost: {word}"
        if r[word] > max(bounds):
            return f"too often: {word}"
    return None


@dataclass(frozen=True)
class Edit:
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


def edit_faults(ours: bytes, other: bytes, result: bytes, edit: Edit) -> list[str]:
    """Return what is wrong with `result`: ours, with a symbol or a part of it as in `other`.

    Raises where a side cannot be read.
    """
    if faults := list(_bytes_faults(ours, result)):
        return faults
    o, x, r = (read_pieces(side, edit.names) for side in (ours, other, result))
    mine, new = (count_words(with_old_names(x, edit.names)) for x in (edit.mine, edit.new))
    return [*_changed_elsewhere(edit, o, x, r), *_invented(o, r, mine, new), *_doubled(o, x, r)]


def _changed_elsewhere(edit: Edit, o: Pieces, x: Pieces, r: Pieces) -> Iterator[str]:
    """Yield what is changed beside the symbol, or to something that is not the other's."""
    symbol = path_with_old_name(edit.symbol, edit.names)
    inside = symbol + "."
    for name in sorted({*o.words, *r.words}):
        if r.same(name, o):
            continue
        if name != symbol and not (edit.whole and name.startswith(inside)):
            yield f"{name}: changed with {symbol}"
        elif name in r.words and not r.same(name, x):
            yield f"{name}: neither yours nor the template's"
    for scope in sorted({*o.rest, *r.rest}):
        around = inside.startswith(scope) or (edit.whole and scope.startswith(inside))
        if o.rest[scope] != r.rest[scope] and not around:
            yield f"{scope}: changed with {symbol}"


def _invented(o: Pieces, r: Pieces, mine: Words, new: Words) -> Iterator[str]:
    """Yield the words that the result lost or gained beside those of the symbol."""
    before, after = count_words(o.text), count_words(r.text)
    if lost := before - after - mine:
        yield f"lost: {', '.join(lost)}"
    if more := after - before - new:
        yield f"nobody wrote: {', '.join(more)}"


def _doubled(o: Pieces, x: Pieces, r: Pieces) -> Iterator[str]:
    """Yield the names that the result defines more often than either file."""
    for name, times in sorted(r.definitions.items()):
        if times > max(1, o.definitions[name], x.definitions[name]):
            yield f"your file has its own {name}"
