"""Three-way merge of a Python file, and the template's side of what the user chose.

A conflict is the template's change of one symbol, taken back: what is left of its file merges, and the change is told.
Whatever happens, the user's file is safe: what cannot be merged or fails its check stays.
"""

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from redco_merge.conflicts import Merge
from redco_merge.describe import symbol_text
from redco_merge.limit import limit_time, pause_collector
from redco_merge.result import WHOLE, MergeResult, Unmergeable, keep_whole, still_in_conflict
from redco_merge.source import decode_source
from redco_merge.take import CannotTake, check_names, with_symbol_of
from redco_merge.verify import Terms, merge_faults, told_faults

# The functions of a pipeline that say what is learnt. Merged line by line they may run and train
# wrongly, so once the user has edited one, the template's version lies beside it.
OWNED = ("collate", "loss", "predict")

# Of a file that both sides changed in one place: what takes the time of a merge grows with it.
_MOST_LINES = 8000
_MOST_SECONDS = (
    30.0  # of one merge: ten times the longest of 1,000 that people made, for slow machines
)


def merge(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    owned: Iterable[str] = OWNED,
    prefer_theirs: Collection[str] = (),
) -> MergeResult:
    """Merge into the user's Python file `ours` what the template changed from `base` to `theirs`.

    owned: dotted names of symbols that are never merged into once the user has edited them.
    prefer_theirs: symbols of which the template's side wins where they are in conflict, as
    `Conflict.symbol` names them; one that cannot be taken by itself stays a conflict, whose reason
    says why.
    Pure, and never raises: where a file or a symbol cannot be merged, or the result does not stand
    an independent check, the user's side is kept and the template's is a conflict.
    """
    owned = tuple(owned)
    merged = merge_guarded(base, ours, theirs, owned)
    preferred = [x.symbol for x in merged.conflicts if x.symbol in prefer_theirs]
    if WHOLE in preferred:
        return MergeResult(theirs)
    if not preferred:
        return merged
    return _Preference(base, ours, theirs, owned, merged).merge(list(dict.fromkeys(preferred)))


def merge_guarded(base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]) -> MergeResult:
    """Merge a Python file. Never raises: what cannot be merged is kept whole."""
    if theirs in (base, ours):
        return MergeResult(ours)
    if ours == base:
        return MergeResult(theirs)
    try:
        with warnings.catch_warnings(), limit_time(_MOST_SECONDS), pause_collector():
            warnings.simplefilter("ignore")  # of the parser, about the user's code
            return _merge_checked(base, ours, theirs, owned)
    except (KeyboardInterrupt, SystemExit):
        raise
    except (Unmergeable, SyntaxError) as error:
        return keep_whole(ours, theirs, f"your file and the template's cannot be merged: {error}")
    except BaseException as error:  # whatever it is, the user's file is safer as it is
        return keep_whole(ours, theirs, f"the merge failed: {type(error).__name__}: {error}")


def _merge_checked(base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]) -> MergeResult:
    mine = decode_source(ours)
    merge = Merge(decode_source(base), mine, decode_source(theirs), owned, _MOST_LINES)
    merged = MergeResult(mine.encode(merge.lines()), list(merge.conflicts.values()), merge.warnings)
    terms = Terms(*(mine.encode(x) for x in (merge.before, merge.ours, merge.left)))
    wrong = merge_faults(*terms, merged.content, merge.owned, merge.as_git)
    wrong += [*told_faults(base, ours, theirs, terms, merged.conflicts, merge.owned, merge.renames)]
    if wrong:
        return keep_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged


@dataclass(frozen=True)
class _Preference:
    """A merge of the user's file with some symbols as the template has them.

    base: what the template wrote before.
    ours: the user's file.
    theirs: what the template writes now.
    owned: as in `merge`.
    plain: the merge with nothing taken.
    """

    base: bytes
    ours: bytes
    theirs: bytes
    owned: tuple[str, ...]
    plain: MergeResult

    def merge(self, symbols: list[str]) -> MergeResult:
        """Merge with the template's side of those that can be taken; say of the others why not."""
        try:
            return self.attempt(symbols)
        except CannotTake:
            pass
        done: list[str] = []
        result, why = self.plain, {}
        for symbol in symbols * 2:  # one may need another that is behind it
            if symbol not in done:
                try:
                    result = self.attempt([*done, symbol])
                    done.append(symbol)
                except CannotTake as error:
                    why[symbol] = str(error)
        left = [
            still_in_conflict(x, why[x.symbol]) if x.symbol in why else x for x in result.conflicts
        ]
        return replace(result, conflicts=left)

    def attempt(self, symbols: list[str]) -> MergeResult:
        """Merge with the template's side of all of `symbols`. Raises CannotTake."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about the user's code
            try:
                ours = self.ours
                for symbol in symbols:
                    removes = any(x.symbol == symbol and not x.theirs for x in self.plain.conflicts)
                    added = not symbol_text(self.base, symbol) or symbol in self.owned
                    ours = with_symbol_of(self.theirs, ours, symbol, removes, added)
                merged = merge_guarded(self.base, ours, self.theirs, self.owned)
                self.check(merged, symbols)
            except CannotTake:
                raise
            except Exception as error:  # whatever it is, the user's side is safer
                raise CannotTake(f"{type(error).__name__}: {error}") from error
        return merged

    def check(self, merged: MergeResult, symbols: list[str]) -> None:
        """Raise CannotTake if a conflict is left or new, or the user's code lacks a name."""
        reasons = {x.symbol: x.reason for x in self.plain.conflicts}
        for x in merged.conflicts:
            if x.symbol in symbols:
                raise CannotTake("" if x.reason == reasons.get(x.symbol) else x.reason)
            if x.symbol not in reasons:
                raise CannotTake(f"then {x.symbol} is in conflict: {x.reason}")
        check_names(self.ours, self.theirs, merged.content)
