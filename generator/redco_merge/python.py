"""Three-way merge of a Python file, and the template's side of what the user chose.

A conflict is the template's change of one symbol, taken back: what is left of its file merges, and the change is told.
Whatever happens, the user's file is safe: what cannot be merged or fails its check stays.
"""

import warnings
from collections.abc import Collection, Iterable
from dataclasses import replace

from redco_merge.conflicts import Merge
from redco_merge.describe import symbol_text
from redco_merge.limit import limit_time, names_of_file
from redco_merge.result import (
    STILL_USED,
    UNUSED,
    WHOLE,
    Conflict,
    MergeResult,
    Unmergeable,
    keep_whole,
    still_in_conflict,
)
from redco_merge.source import decode_source, plain_text
from redco_merge.take import CannotTake, check_names, with_symbol_of
from redco_merge.verify import Terms, merge_faults, told_faults

# The functions of a pipeline that say what is learnt. Merged line by line they may run and train
# wrongly, so once the user has edited one, the template's version lies beside it.
OWNED = ("collate", "loss", "predict")

# Of one merge: five times the longest of 1,000 that people made, for slow machines.
_MOST_SECONDS = 30.0


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
    preferred = [x for x in merged.conflicts if x.symbol in prefer_theirs]
    if any(x.symbol == WHOLE for x in preferred):
        return MergeResult(theirs)
    return _prefer(merged, preferred, base, theirs, owned) if preferred else merged


def _prefer(
    merged: MergeResult,
    preferred: list[Conflict],
    base: bytes,
    theirs: bytes,
    owned: tuple[str, ...],
) -> MergeResult:
    """Return a merge with the template's side of those conflicts that can be taken; it says of the others why not."""
    taken: list[Conflict] = []
    content, why = merged.content, dict[Conflict, str]()
    one_by_one = [[x] for x in preferred * 2]  # one may need another that is behind it
    for more in [preferred, *one_by_one]:
        if more[0] in taken:
            continue
        try:
            content = _with_sides(merged.content, [*taken, *more], base, theirs, owned)
            taken += more
        except CannotTake as error:
            why |= dict.fromkeys(more, str(error))
        except Exception as error:  # whatever it is, the user's side is safer
            why |= dict.fromkeys(more, f"{type(error).__name__}: {error}")
    left = [x for x in merged.conflicts if x not in taken]
    left = [still_in_conflict(x, why[x]) if x in why else x for x in left]
    used, _ = names_of_file(plain_text(decode_source(content).lines))
    notes = [_note_now(note, used) for note in merged.warnings]
    return replace(merged, content=content, conflicts=left, warnings=notes)


def _note_now(note: str, used: Collection[str]) -> str:
    """Return a note as it is true of a file that uses these names."""
    name = note.partition("`")[2].partition("`")[0]
    return UNUSED.format(name) if note == STILL_USED.format(name) and name not in used else note


def _with_sides(
    content: bytes, conflicts: list[Conflict], base: bytes, theirs: bytes, owned: tuple[str, ...]
) -> bytes:
    """Return a file with the template's side of all of some conflicts. Raises CannotTake, or what a parser does."""
    ours = content
    with warnings.catch_warnings(action="ignore"):  # of the parser, about the user's code
        for x in conflicts:
            added = not symbol_text(base, x.symbol) or x.symbol in owned
            content = with_symbol_of(theirs, content, x.symbol, not x.theirs, added)
        check_names(ours, theirs, content)
    return content


def merge_guarded(base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]) -> MergeResult:
    """Merge a Python file. Never raises: what cannot be merged is kept whole."""
    if theirs in (base, ours):
        return MergeResult(ours)
    if ours == base:
        return MergeResult(theirs)
    try:
        # Warnings are of the parser, about the user's code.
        with warnings.catch_warnings(action="ignore"), limit_time(_MOST_SECONDS):
            return _merge_checked(base, ours, theirs, owned)
    except (KeyboardInterrupt, SystemExit):
        raise
    except (Unmergeable, SyntaxError) as error:
        return keep_whole(ours, theirs, f"your file and the template's cannot be merged: {error}")
    except BaseException as error:  # whatever it is, the user's file is safer as it is
        return keep_whole(ours, theirs, f"the merge failed: {type(error).__name__}: {error}")


def _merge_checked(base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]) -> MergeResult:
    mine = decode_source(ours)
    merge = Merge(decode_source(base), mine, decode_source(theirs), owned)
    merged = MergeResult(mine.encode(merge.lines()), list(merge.conflicts.values()), merge.warnings)
    terms = Terms(*(mine.encode(x) for x in (merge.before, merge.ours, merge.left)))
    wrong = merge_faults(*terms, merged.content, merge.owned, merge.as_git)
    wrong += [*told_faults(base, ours, theirs, terms, merged.conflicts, merge.owned, merge.renames)]
    if wrong:
        return keep_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged
