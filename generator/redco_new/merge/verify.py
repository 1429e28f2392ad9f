"""An independent check of a merge. It reads the four files itself and trusts nothing it is told."""

import codecs
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from redco_new.merge.pieces import Pieces, decoded, encoding, read, with_old_names, words
from redco_new.merge.result import Merged
from redco_new.merge.verify_names import code_names, names_in, undefined


def faults(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    merged: Merged,
    owned: tuple[str, ...] = (),
    renamed: dict[str, str] | None = None,
) -> list[str]:
    """What is wrong with `merged`: something of the user's lost, of the template's neither in it nor
    in a conflict, something that neither wrote, a file that is broken. Empty if nothing is.

    renamed: old -> new, as the user renamed. Raises where a side cannot be read.
    """
    found = list(bytes_faults(ours, merged.content))
    if found:
        return found
    names = renamed or {}
    if not compiles(decoded(merged.content)) and compiles(decoded(ours)):
        return ["the result is not Python"]
    if back := names.keys() & code_names(decoded(merged.content)):
        return [f"the old name is back: {', '.join(sorted(back))}"]
    owned = tuple(names_back(x, names) for x in owned)
    told: dict[str, Counter] = defaultdict(Counter)
    for x in merged.conflicts:
        symbol = names_back(x.symbol, names)
        told[symbol] += words(with_old_names(x.theirs, names))
        if x.pending != (symbol in owned):
            return [f"{symbol}: told as if it were owned, or were not"]
    sides = [read(x, names) for x in (base, ours, theirs, merged.content)]
    return list(Check(*sides, told, owned).faults())


def bytes_faults(ours: bytes, result: bytes) -> Iterator[str]:
    if encoding(ours) != encoding(result):
        yield "the encoding is another"
    if ours.startswith(codecs.BOM_UTF8) != result.startswith(codecs.BOM_UTF8):
        yield "the byte order mark is another"
    if ours and result and ours.endswith(b"\n") != result.endswith(b"\n"):
        yield "the end of the last line is another"
    if b"\n" in ours and not set(endings(result)) <= set(endings(ours)):
        yield "a line ending that the file had not"


def endings(data: bytes) -> list[bytes]:
    return re.findall(rb"\r?\n", data)


def compiles(text: str) -> bool:
    try:
        compile(text, "<merge>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def names_back(symbol: str, names: dict[str, str]) -> str:
    first, dot, rest = symbol.partition(".")
    return {new: old for old, new in names.items()}.get(first, first) + dot + rest


class Check:
    """told: the words of each conflict; the template's changes there may be missing."""

    def __init__(self, base: Pieces, ours: Pieces, theirs: Pieces, result: Pieces, told, owned):
        self.b, self.o, self.t, self.r = base, ours, theirs, result
        self.told, self.owned = told, owned

    def faults(self) -> Iterator[str]:
        for path in sorted(set().union(*(x.words for x in (self.b, self.o, self.t, self.r)))):
            if wrong := self.user_side(path) or self.template_side(path) or self.both_sides(path):
                yield f"{path}: {wrong}"
        for scope in sorted(set().union(*(x.rest for x in (self.b, self.o, self.t, self.r)))):
            yield from self.between(scope)
        yield from self.imports()
        yield from self.names()

    def covered(self, path: str) -> bool:
        """Whether a conflict holds the template's side of a symbol."""
        shown = [x for name, x in self.told.items() if path == name or path.startswith(name + ".")]
        return any(not self.t.words.get(path, Counter()) - x for x in shown)

    def user_side(self, path: str) -> str | None:
        """Lost text of the user's, or a deletion of the user's undone."""
        b, o, t, r = (path in x.words for x in (self.b, self.o, self.t, self.r))
        edited = not self.o.same(path, self.b)
        if not o:
            return "the user deleted it, and it is back" if b and r else None
        if not r:
            used = "." in path and self.r.attributes[last(path)] > self.t.attributes[last(path)]
            return "the user's symbol is gone" if edited or t or used else None
        final = not t or self.t.same(path, self.b) or (edited and path in self.owned)
        if final and not self.r.same(path, self.o):
            return "only the user may change it, and it is changed"
        return None

    def template_side(self, path: str) -> str | None:
        """A change of the template that is neither in the result nor told."""
        changed = not self.t.same(path, self.b)
        if not changed or self.covered(path) or self.r.same(path, self.t):
            return None
        if path not in self.t.words:
            return "the template removes it, and nobody is told why it stays"
        if path not in self.b.words or path not in self.o.words or self.o.same(path, self.b):
            return "the template's change is dropped"
        return None

    def both_sides(self, path: str) -> str | None:
        """What a symbol says, word by word."""
        if path not in self.r.words:
            return None
        sides = (x.words.get(path, Counter()) for x in (self.b, self.o, self.t, self.r))
        return miscounted(*sides, told=self.covered(path))

    def between(self, scope: str) -> Iterator[str]:
        """Comments and statements without a name."""
        sides = (x.rest[scope] for x in (self.b, self.o, self.t, self.r))
        if wrong := miscounted(*sides, told=bool(self.told)):
            yield f"{scope or 'between the symbols'}: {wrong}"

    def imports(self) -> Iterator[str]:
        b, o, t, r = (x.imports for x in (self.b, self.o, self.t, self.r))
        star = any(name == "*" for _, name, _ in r)
        used = set() if star else names_in(self.r.text)
        for binding in sorted(o - r):
            if binding not in b - t or binding[2].partition(".")[0] in used:
                yield f"the user's import is lost: {binding}"
        for binding in sorted(r - o - t):
            yield f"nobody imports: {binding}"
        for binding in sorted((b & o & r) - t):
            if not star and binding[2].partition(".")[0] not in used and not self.told:
                yield f"the template's removal is dropped: {binding}"
        taken = {name for _, _, name in b | o} | set(self.o.defined)
        for binding in sorted((t - b) - r):
            if binding[2] not in taken or not self.told:
                yield f"the template's import is dropped: {binding}"

    def names(self) -> Iterator[str]:
        """A name that is defined twice, or not at all."""
        o, t, r = self.o.defined, self.t.defined, self.r.defined
        for name in sorted(name for name in r if r[name] > max(1, o[name], t[name])):
            yield f"{name}: defined {r[name]} times"
        lacking = undefined(self.r.text) - undefined(self.o.text) - undefined(self.t.text)
        if lacking := sorted(x for x in lacking if x not in self.told or x in o):
            yield f"not defined: {', '.join(lacking)}"


def miscounted(b: Counter, o: Counter, t: Counter, r: Counter, told: bool) -> str | None:
    """The words that the result has too often or too rarely.

    A word whose count one side left alone has the other side's count; one that both changed lies
    between what they agree on and the sum of the changes. told: the template's side may be missing.
    """
    for word in b | o | t | r:
        if t[word] == b[word]:
            bounds = [o[word]]
        elif o[word] == b[word]:
            bounds = [t[word], o[word]] if told else [t[word]]
        else:
            both = o[word] + t[word] - b[word]
            bounds = [o[word], both] if told else [o[word], t[word], both]
        if r[word] < min(bounds):
            return f"lost: {word}"
        if r[word] > max(bounds):
            return f"too often: {word}"
    return None


def last(path: str) -> str:
    return path.rpartition(".")[2]
