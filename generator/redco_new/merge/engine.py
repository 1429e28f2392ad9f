"""Three-way merge of Python files by symbol."""

from collections.abc import Iterable
from dataclasses import dataclass

from redco_new.merge.coherence import Side, Sides
from redco_new.merge.rename import renamed, renames
from redco_new.merge.result import Conflict
from redco_new.merge.scope import Scope
from redco_new.merge.session import Session
from redco_new.merge.source import Source, Unmergeable
from redco_new.merge.style import style_of


@dataclass(frozen=True)
class Outcome:
    """renamed: old name -> new name, of what the user renamed."""

    lines: list[str]
    conflicts: list[Conflict]
    warnings: list[str]
    renamed: dict[str, str]


def merge_sources(base: Source, ours: Source, theirs: Source, owned: Iterable[str]) -> Outcome:
    """`ours` with what the template changed from `base` to `theirs`.

    Raises Unmergeable or SyntaxError where the file can only be kept whole.
    """
    sides, width, names = sides_of(base, ours, theirs)
    owned = frozenset(names.get(name, name) for name in owned)
    session, result = settle(sides, Session(owned, width))
    if early := sides.early(result):
        raise Unmergeable(f"merged, it would use {', '.join(sorted(early))} before defining it")
    report(session, sides, result)
    refused = {conflict.symbol.partition(".")[0] for conflict in session.conflicts}
    for old, new in names.items():
        if sides.changed(new) and new not in refused:
            told = f"`{old}` is `{new}` in your file: the template's change of it went there"
            session.warnings.append(told)
    return Outcome(result.lines, session.conflicts, session.warnings, names)


def sides_of(base: Source, ours: Source, theirs: Source) -> tuple[Sides, int, dict[str, str]]:
    """The three files, the template's in the style and the names of the user's; that style's line
    length; old name -> new name, of what the user renamed."""
    style = style_of(ours, base)
    before, after = style.apply(base), style.apply(theirs)
    names = renames(before, ours.lines, after)
    sides = Sides(Side(renamed(before, names)), Side(ours.lines), Side(renamed(after, names)))
    return sides, style.width, names


def settle(sides: Sides, session: Session) -> tuple[Session, Side]:
    """Merge, and anew with the names that the result turns out to need, until it needs no more."""
    while True:
        items = Scope("", session).merge(
            *(x.symbols for x in (sides.base, sides.ours, sides.theirs))
        )
        result = Side(without_gap([line for item in items for line in item.lines], sides.ours))
        kept, needed = sides.kept(result), sides.needed(result)
        if kept <= session.kept and needed <= session.needed:
            return session, result
        session = Session(
            session.owned, session.width, session.kept | kept, session.needed | needed
        )


def without_gap(lines: list[str], ours: Side) -> list[str]:
    """`lines` without the blank ones that what was above them left at the top of the file."""
    had_one = bool(ours.lines) and not ours.lines[0].strip()
    top = next((i for i, line in enumerate(lines) if line.strip()), 0)
    return lines if had_one else lines[top:]


def report(session: Session, sides: Sides, result: Side) -> None:
    """What the user should know about the file as a whole."""
    told = {conflict.symbol for conflict in session.conflicts}
    for name, symbols in sides.lost(result).items():
        if name not in told:
            session.conflict(name, symbols, "the template's code uses it, and your file lacks it")
    for name in sorted(session.kept & {x.top for x in sides.ours.imports}):
        session.warnings.append(f"the template no longer imports `{name}`; your file still uses it")
    for name in sorted(session.needed & result.bound):
        session.warnings.append(f"`{name}` is imported again: the template's new code uses it")
    for name in sides.rebound():
        session.warnings.append(f"`{name}` is another import in your file; new code uses it too")
