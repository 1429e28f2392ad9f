"""The template's side of the conflicts that the user chose."""

import warnings
from dataclasses import dataclass, replace

from redco_new.merge.guard import guarded
from redco_new.merge.result import WHOLE, Merged, not_taken
from redco_new.merge.spot import Stays
from redco_new.merge.swap import coherent, with_symbol_of, without_edit


@dataclass(frozen=True)
class Taking:
    """A merge of the user's file with its edits of some symbols undone: there the template's win.

    plain: the merge with nothing undone.
    """

    base: bytes
    ours: bytes
    theirs: bytes
    owned: tuple[str, ...]
    plain: Merged

    def merged(self, wanted: list[str]) -> Merged:
        """The merge with the template's side of all of `wanted`, or of as many as can be taken."""
        try:
            return self.attempt(wanted)
        except Stays:
            return self.one_by_one(wanted)

    def one_by_one(self, wanted: list[str]) -> Merged:
        taken, result, why = [], self.plain, {}
        for symbol in wanted * 2:  # one may need another that is behind it
            if symbol not in taken:
                try:
                    result = self.attempt([*taken, symbol])
                    taken.append(symbol)
                except Stays as error:
                    why[symbol] = str(error)
        left = [not_taken(x, why[x.symbol]) if x.symbol in why else x for x in result.conflicts]
        return replace(result, conflicts=left)

    def attempt(self, symbols: list[str]) -> Merged:
        """The merge with the template's side of all of `symbols`. Raises Stays."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about the user's code
            try:
                ours = self.ours
                for symbol in symbols:
                    ours = without_edit(self.base, ours, self.theirs, symbol, self.owned)
                merged = guarded(self.base, ours, self.theirs, self.owned)
                self.check(merged, symbols)
            except Stays:
                raise
            except Exception as error:  # whatever it is, the user's side is safer
                raise Stays(f"{type(error).__name__}: {error}") from error
        return merged

    def check(self, merged: Merged, symbols: list[str]) -> None:
        """Raises Stays if a conflict is left or new, or the user's code lacks a name."""
        known = {x.symbol: x.reason for x in self.plain.conflicts}
        for x in merged.conflicts:
            if x.symbol in symbols:
                raise Stays("" if x.reason == known.get(x.symbol) else x.reason)
            if x.symbol not in known:
                raise Stays(f"then {x.symbol} is in conflict: {x.reason}")
        coherent(self.ours, self.theirs, merged.content)


def take(
    ours: bytes, theirs: bytes, symbol: str, removes: bool = False, added: bool = False
) -> bytes | None:
    """`ours` with one symbol, comments above included, as in `theirs`.

    Of a class that both have it is the header alone: its members are symbols of their own.
    removes: the template removes it, and where `theirs` has none, so does the result.
    added: both sides added it, and all of a class is taken.
    None where this cannot be done with certainty, or breaks other code of the user's.
    """
    if symbol == WHOLE:
        return theirs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            content = with_symbol_of(theirs, ours, symbol, removes, added)
            coherent(ours, theirs, content)
        except Exception:  # Stays, and all that a parser may raise
            return None
    return content
