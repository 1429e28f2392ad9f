"""Three-way merge of a Python file by symbol, and the template's side of what the user chose.

Whatever happens, the user's file is safe: what cannot be merged or fails its check stays.
"""

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from redco_merge.by_lines import merge_by_lines
from redco_merge.limit import limit_time, pause_collector
from redco_merge.result import (
    WHOLE,
    Conflict,
    MergeResult,
    Session,
    keep_whole,
    still_in_conflict,
)
from redco_merge.scope import Scope
from redco_merge.sides import Side, Sides, read_sides, without_gap
from redco_merge.source import Source, Unmergeable, decode_source
from redco_merge.swap import CannotTake, check_names, without_edit
from redco_merge.symbols import text_for_reader
from redco_merge.verify import merge_faults

# The functions of a pipeline that say what is learnt. Merged line by line they may run and train
# wrongly, so once the user has edited one, the template's version lies beside it.
OWNED = ("collate", "loss", "predict")

# Of a file that is merged by symbol, which takes half a millisecond a line.
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
            merged = merge_by_lines(base, ours, theirs, owned)
            return merged or _merge_checked(base, ours, theirs, owned)
    except (KeyboardInterrupt, SystemExit):
        raise
    except (Unmergeable, SyntaxError) as error:
        return keep_whole(ours, theirs, f"your file and the template's cannot be merged: {error}")
    except BaseException as error:  # whatever it is, the user's file is safer as it is
        return keep_whole(ours, theirs, f"the merge failed: {type(error).__name__}: {error}")


def _merge_checked(base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]) -> MergeResult:
    mine = decode_source(ours)
    if len(mine.lines) > _MOST_LINES:
        raise Unmergeable(f"more than {_MOST_LINES} lines, and both sides changed one place")
    outcome = merge_sources(decode_source(base), mine, decode_source(theirs), owned)
    merged = MergeResult(mine.encode(outcome.lines), outcome.conflicts, outcome.warnings)
    if wrong := merge_faults(base, ours, theirs, merged, owned, outcome.renames):
        return keep_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged


@dataclass(frozen=True)
class _Outcome:
    """A merge that is still to be checked.

    lines: of the merged file.
    conflicts: as in `MergeResult`.
    warnings: as in `MergeResult`.
    renames: old name -> new name, of what the user renamed.
    """

    lines: list[str]
    conflicts: list[Conflict]
    warnings: list[str]
    renames: dict[str, str]


def merge_sources(base: Source, ours: Source, theirs: Source, owned: Iterable[str]) -> _Outcome:
    """Merge into `ours` what the template changed from `base` to `theirs`.

    Raises Unmergeable or SyntaxError where the file can only be kept whole.
    """
    sides = read_sides(base, ours, theirs)
    names = frozenset(sides.renames.get(name, name) for name in owned)
    session, result = _merge_until_stable(sides, Session(names, sides.width))
    if early := sides.early(result):
        raise Unmergeable(f"merged, it would use {', '.join(sorted(early))} before defining it")
    _report(session, sides, result)
    return _Outcome(result.lines, session.conflicts, session.warnings, sides.renames)


def _merge_until_stable(sides: Sides, session: Session) -> tuple[Session, Side]:
    """Merge, and anew with the names that the result turns out to need, until it needs no more."""
    while True:
        scope = Scope("", session)
        items = scope.merge(sides.base.symbols, sides.ours.symbols, sides.theirs.symbols)
        result = Side(without_gap([line for item in items for line in item.lines], sides.ours))
        removed, deleted = sides.removed_but_used(result), sides.deleted_but_used(result)
        if removed <= session.removed_but_used and deleted <= session.deleted_but_used:
            return session, result
        session = Session(
            session.owned,
            session.width,
            session.removed_but_used | removed,
            session.deleted_but_used | deleted,
        )


def _report(session: Session, sides: Sides, result: Side) -> None:
    """Add to the session what the user should know about the file as a whole."""
    symbols_in_conflict = {conflict.symbol for conflict in session.conflicts}
    for name, symbols in sides.lacking(result).items():
        if name not in symbols_in_conflict:
            reason = "the template's code uses it, and your file lacks it"
            session.add_conflict(name, text_for_reader(symbols), reason)
    for name in sorted(session.removed_but_used & {x.top for x in sides.ours.imports}):
        session.warnings.append(f"the template no longer imports `{name}`; your file still uses it")
    for name in sorted(session.deleted_but_used & result.bound):
        session.warnings.append(f"`{name}` is imported again: the template's new code uses it")
    session.warnings.extend(sides.rebound_warnings())
    refused = {conflict.symbol.partition(".")[0] for conflict in session.conflicts}
    session.warnings.extend(sides.renamed_warnings(refused))


@dataclass(frozen=True)
class _Preference:
    """A merge of the user's file with the edits of some symbols undone: there the template's win.

    base: what the template wrote before.
    ours: the user's file.
    theirs: what the template writes now.
    owned: as in `merge`.
    plain: the merge with nothing undone.
    """

    base: bytes
    ours: bytes
    theirs: bytes
    owned: tuple[str, ...]
    plain: MergeResult

    def merge(self, symbols: list[str]) -> MergeResult:
        """Merge with the template's side of all of `symbols`, or of as many as can be taken."""
        try:
            return self.attempt(symbols)
        except CannotTake:
            return self.one_by_one(symbols)

    def one_by_one(self, symbols: list[str]) -> MergeResult:
        """Merge with the template's side of those that can be taken; say of the others why not."""
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
                    ours = without_edit(self.base, ours, self.theirs, symbol, self.owned)
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
