"""The merge of three Python files until nothing of it is in conflict: what is, is taken back from the template's."""

from collections.abc import Iterable, Iterator

from redco_merge.by_statements import merge_lines
from redco_merge.limit import check_time
from redco_merge.matching import Reach
from redco_merge.names import unbound_names, unset_attributes, used_before_defined
from redco_merge.result import STILL_USED, Conflict, Unmergeable
from redco_merge.source import Source, plain_text
from redco_merge.spots import (
    Pair,
    Spot,
    bindings_at,
    binds,
    both_have_members,
    count_definitions,
    count_statements,
    differ,
    find_spots,
    is_changed,
    key_of,
    pair_spots,
    parameters_of,
    paths_of,
    touches,
    uses,
)
from redco_merge.style import in_order_of, in_users_terms, without_gap
from redco_merge.symbols import Symbol, text_for_reader

# Each round takes back what the one before has in conflict; people's merges need five at most.
_MOST_ROUNDS = 100
_BESIDE = "you changed the code beside it"


class Merge:
    """A merge of a Python file.

    before: base, in the user's terms.
    ours: the user's lines.
    after: theirs, in the user's terms.
    left: theirs without what is in conflict.
    renames: old name -> new name, of what the user renamed.
    conflicts: by the symbol, so far.
    warnings: what the user should know of the rest.
    as_git: whether the lines are what git makes of `before`, `ours` and `left`.
    """

    def __init__(self, base: Source, ours: Source, theirs: Source, owned: Iterable[str]):
        self.before, self.after, self.renames = in_users_terms(base, ours, theirs)
        self.ours, self.left = ours.lines, self.after
        self.owned = {self.renames.get(name, name) for name in owned}
        self.conflicts: dict[str, Conflict] = {}
        self.warnings: list[str] = []
        self.as_git, self.in_order = True, False

    def lines(self) -> list[str]:
        """Return the merged file; what is in conflict is as the user has it. Raises Unmergeable, SyntaxError."""
        self._take_back_owned()
        for _ in range(_MOST_ROUNDS):
            check_time()
            lines, places, self.as_git = merge_lines(self.before, self.ours, self.left)
            if lines is None and self._follow_moves():
                continue
            if lines is not None:
                if not self._stands(lines):
                    continue
                self._warn(lines)
                return without_gap(lines, self.ours)
            self._take_back(self._in_conflict(places))
        raise Unmergeable("too much of it is in conflict")

    def _take_back_owned(self) -> None:
        for path in self.owned:
            old, mine, new = (
                find_spots(side, path)[0].symbol for side in (self.before, self.ours, self.after)
            )
            if differ(old, new) and differ(old, mine) and differ(mine, new):
                pairs = [x for x in self._pairs() if path in paths_of(x)]
                self._take_back(pairs)

    def _follow_moves(self) -> bool:
        """Put the template's definitions into the order of the user's; return whether that changes anything."""
        moved = None if self.in_order else in_order_of(self.ours, self.before, self.left)
        self.in_order = True
        if moved is None:
            return False
        self.before, self.left = moved
        return True

    def _in_conflict(self, places: list[Reach]) -> list[Pair]:
        """Return the symbols that the template changed in these places, of which the user changed some too."""
        mine = {y for x in pair_spots(self.before, self.ours) if is_changed(x) for y in paths_of(x)}
        sides = list(pair_spots(self.ours, self.left))
        other = {key_of(x) for x in sides if differ(x[0].symbol, x[1].symbol)}
        same = {key_of(x) for x in sides} - other
        mine_has = {x.path for x, _ in sides if x.symbol}
        changed = [x for x in self._pairs() if is_changed(x) and key_of(x) not in same]
        changed = [x for x in changed if x[1].symbol or x[0].path in mine_has]  # not what both drop
        chosen: list[Pair] = []
        for place in places:
            touched = [x for x in changed if touches(x, place)]
            both = [x for x in touched if mine.intersection(paths_of(x))]
            if not touched:
                raise Unmergeable("you and the template changed the same place")
            chosen += [x for x in both or touched if x not in chosen]
        return chosen

    def _take_back(
        self, pairs: Iterable[Pair], reason: str = "", same_is_told: bool = True
    ) -> None:
        """Leave out of `left` what the template changed of some symbols, and tell it.

        same_is_told: also where the user's file says the same.
        """
        for key in dict.fromkeys([key_of(x) for x in pairs]):
            some = False
            while pair := next(
                (x for x in self._pairs() if key_of(x) == key and is_changed(x)), None
            ):
                self._take_back_one(*pair, reason, same_is_told)
                some = True
            if not some:
                raise Unmergeable("you and the template changed the same place")

    def _pairs(self) -> Iterator[Pair]:
        return pair_spots(self.before, self.left)

    def _take_back_one(self, old: Spot, new: Spot, reason: str, same_is_told: bool) -> None:
        mine = find_spots(self.ours, new.path)[0].symbol
        if same_is_told or not mine or not new.symbol or not mine.says_as(new.symbol):
            self._tell(old, new, reason)
        lines = new.like(old, whole=not both_have_members(old, new))
        if lines is None or lines == self.left:
            raise Unmergeable(f"{old.path}: it would be used before it is defined")
        self.left = lines

    def _tell(self, old: Spot, new: Spot, reason: str) -> None:
        path = new.path or old.path
        symbol = new.symbol or old.symbol
        mine = [x.symbol for x in find_spots(self.ours, path) if x.symbol]
        if symbol and symbol.imports:
            text = text_for_reader([new.symbol] if new.symbol else [])
            was, now = ({*x.symbol.imports} if x.symbol else set() for x in (old, new))
            for alias in dict.fromkeys(x.alias for x in sorted(was ^ now)):
                why = reason or "you and the template changed this import"
                self._add(f"{new.scope}{alias}", text, why)
            return
        text = text_for_reader(x.symbol for x in find_spots(self.after, path) if x.symbol)
        self._add(path, text, reason or self._reason(path, old.symbol, mine, new.symbol))
        parameters = parameters_of(new.symbol)
        if old.symbol and parameters is not None and parameters != parameters_of(old.symbol):
            self.warnings.append(f"`{path}` has other parameters in the template: {parameters}")

    def _add(self, path: str, text: str, reason: str) -> None:
        self.conflicts[path] = Conflict(path, text, reason, path in self.owned)

    def _reason(self, path: str, old: Symbol | None, mine: list[Symbol], new: Symbol | None) -> str:
        if not old:
            return "you and the template both added it" if mine else _BESIDE
        if not mine:
            return "you deleted it, and the template changed it"
        if not new:
            edited = "the template removes it, and you edited it"
            return _BESIDE if mine[0].same(old) else edited
        if path in self.owned:
            return "it is yours: the template's new version lies beside it"
        if len(mine) > 1:
            return "it is defined in several places"
        if old.comments != new.comments != mine[0].comments != old.comments:
            if old.says_as(new) or old.says_as(mine[0]):
                return "you and the template changed the comment above it"
        return "you and the template changed the same place"

    def _stands(self, lines: list[str]) -> bool:
        """Return whether each name of a merge is defined once; take back what the template did, where it is not."""
        text, mine, after = (plain_text(x) for x in (lines, self.ours, self.after))
        lacking = unbound_names(text) - unbound_names(mine) - unbound_names(after)
        dangling = unset_attributes(text) - unset_attributes(mine) - unset_attributes(after)
        for name in sorted(lacking | dangling):
            self._define(name)
        if lacking or dangling:
            return False
        twice = [*self._defined_twice(lines), *self._said_twice(lines)]
        moved = [] if twice else list(self._removed_and_there(lines))
        self._take_back(twice, same_is_told=False)
        self._take_back(moved, "the template removes it, and you moved it")
        return not twice and not moved

    def _define(self, name: str) -> None:
        """Take back what makes a merge lack a name: that the template removes it, or uses it where the user deleted it."""
        pairs = list(self._pairs())
        removed = [
            x for x in pairs if binds(x[0], name) and not any(binds(y, name) for _, y in pairs)
        ]
        if removed and not bindings_at(removed[0][0]):
            self._take_back(removed, "the template removes it, and your file still uses it")
        elif removed:
            old, new = removed[0]
            lines = new.like(old)
            if lines is None or lines == self.left:
                raise Unmergeable(f"merged, it would lack {name}")
            self.left = lines
            self.warnings.append(STILL_USED.format(name))
        elif back := self._imported_again(name):
            self.ours = back
            self.warnings.append(f"`{name}` is imported again: the template's new code uses it")
        else:
            users = [x for x in pairs if is_changed(x) and uses(x[1], name)]
            self._take_back(users, f"it uses `{name}`, which your file lacks")

    def _imported_again(self, name: str) -> list[str] | None:
        """Return ours with the import of a name that the template has and the user deleted."""
        for old, mine in pair_spots(self.before, self.ours):
            if old.symbol and old.symbol.imports and binds(old, name) and not mine.symbol:
                return mine.like(old)
        return None

    def _defined_twice(self, lines: list[str]) -> Iterator[Pair]:
        """Yield what the template added of a name that the user has, too."""
        merged, mine, left = (count_definitions(x) for x in (lines, self.ours, self.left))
        for path, times in merged.items():
            if times > max(1, mine[path], left[path]):
                yield from (
                    x for x in self._pairs() if is_changed(x) and binds(x[1], path, whole=True)
                )

    def _said_twice(self, lines: list[str]) -> Iterator[Pair]:
        """Yield symbols to which both sides added the same statement, in two places."""
        for pair in filter(is_changed, self._pairs()):
            old, mine, new, merged = (
                count_statements(side, pair[1].path)
                for side in (self.before, self.ours, self.left, lines)
            )
            added = (mine & new) - old
            if any(merged[x] > max(mine[x], new[x]) for x in added):
                yield pair

    def _removed_and_there(self, lines: list[str]) -> Iterator[Pair]:
        """Yield imports that the template removed and the user moved, of which git has a conflict and the merge has one."""
        if not self.as_git:
            old, new, merged = (
                {(x.scope, y) for x, _ in pair_spots(side, side) for y in bindings_at(x)}
                for side in (self.before, self.left, lines)
            )
            back = (old - new) & merged
            yield from (
                x for x in self._pairs() if {(x[0].scope, y) for y in bindings_at(x[0])} & back
            )

    def _warn(self, lines: list[str]) -> None:
        text, mine, left = (plain_text(x) for x in (lines, self.ours, self.left))
        if self.in_order:
            early = used_before_defined(text) - used_before_defined(mine)
            if early := early - used_before_defined(left):
                raise Unmergeable(f"merged, it would use {', '.join(sorted(early))} too early")
        before, own, now = (
            {y for x, _ in pair_spots(side, side) for y in bindings_at(x)}
            for side in (self.before, self.ours, self.left)
        )
        rebound = {x.top for x in before & now - own} & {x.top for x in own}
        new = [x for x in self._pairs() if is_changed(x)]
        for name in sorted(rebound):
            if any(uses(x, name) for _, x in new):
                self.warnings.append(
                    f"`{name}` is another import in your file; new code uses it too"
                )
        for old, name in self.renames.items():
            if any(name == x.path.partition(".")[0] for _, x in new) and name not in self.conflicts:
                told = f"`{old}` is `{name}` in your file: the template's change of it went there"
                self.warnings.append(told)
