"""Three-way merge of the imports of one place, as sets of statements and of the names of each."""

from redco_merge.matching import with_added
from redco_merge.statements import Statement

Text = list[str]
_WIDTH = 100  # characters of a line in the template's files


def merge_import_block(
    base: list[Statement], ours: list[Statement], theirs: list[Statement]
) -> list[Statement | Text] | None:
    """Return the imports with the changes of both sides, ours first; None where it is unclear."""
    sides = base, ours, theirs
    if not all(is_import(x) for side in sides for x in side):
        return None
    b, o, t = ({_subject(x): x for x in side} for side in sides)
    if [*map(len, sides)] != [len(b), len(o), len(t)]:
        return None
    added: dict[str, Text] = {}  # of what the other side drops, the names that one side adds
    for side, other in ((o, t), (t, o)):
        edited = [k for k in side.keys() & b.keys() - other.keys() if side[k].says != b[k].says]
        for key in edited:
            if not (more := _only_added(b[key], side[key])):
                return None  # one side edits what the other drops
            added[key] = _written(side[key], side[key], more)
    order = with_added([x for x in b if x not in added], [*o], [*t])
    merged = [
        added[k] if k in added else _merged(b.get(k), o.get(k), t.get(k))
        for k in sorted(order, key="from __future__".__ne__)
    ]
    if _binds_anew(base, ours, theirs):
        return None
    left = [x for x in merged if x is not None]
    return left if len(left) == len(merged) else None


def _only_added(base: Statement, side: Statement) -> list[str]:
    """Return the names that a side adds to an import; [] where it does more than that."""
    before, after = names_of(base), names_of(side)
    only = {*before} < {*after} and not side.remarks
    return [name for name in after if name not in before] if only else []


def _binds_anew(base: list[Statement], ours: list[Statement], theirs: list[Statement]) -> bool:
    """Return whether both sides bind one name, each to something that the other does not."""
    b, o, t = ({y for x in side for y in bindings_of(x)} for side in (base, ours, theirs))
    mine, others = ({alias for _, alias in side - b - common} for side, common in ((o, t), (t, o)))
    not_mine, not_others = ({alias for _, alias in b - side} for side in (o, t))
    return bool(mine & others or mine & not_others or others & not_mine)


def bindings_of(statement: Statement) -> list[tuple[str, str]]:
    """Return (where from, the name that the file has for it) of each name of an import."""
    source = "".join(statement.says[: statement.says.index("import") + 1])
    names = names_of(statement)
    return [(f"{source} {x}", x.rpartition(" as ")[2].partition(" ")[0]) for x in names]


def is_import(statement: Statement) -> bool:
    """Return whether a statement is an import, without remarks above it."""
    above = statement.words and "#" in statement.words[0].space
    return statement.says[:1] in (("import",), ("from",)) and not above


def _subject(statement: Statement) -> str:
    """Return what an import is of: its module, of an `import` all of it."""
    says = statement.says
    if says[0] == "from":
        return "from " + "".join(says[1 : says.index("import")])
    return "import " + " ".join(says[1:])


def _merged(
    base: Statement | None, ours: Statement | None, theirs: Statement | None
) -> Statement | Text | None:
    """Merge one import by its names, or None."""
    if ours is None:
        return theirs
    if theirs is None or theirs.key == ours.key or (base and theirs.key == base.key):
        return ours
    if base and ours.key == base.key:
        return theirs
    if any(side.remarks for side in (base, ours, theirs) if side):
        return None  # a remark of an import is about its names
    before, mine, others = (names_of(x) if x else [] for x in (base, ours, theirs))
    names = _merge_names(before, mine, others)
    if not names or names == mine:
        return ours if names else None
    return theirs if names == others else _written(ours, theirs, names)


def names_of(statement: Statement) -> list[str]:
    """Return the names of a `from` import, each with its alias."""
    words = [x for x in statement.says if x not in ("(", ")")]
    return " ".join(words[words.index("import") + 1 :]).split(" , ")


def _merge_names(base: list[str], ours: list[str], theirs: list[str]) -> list[str]:
    """Return the names with the changes of both sides: in order where both are, else the user's new ones first."""
    names = with_added(base, ours, theirs)
    for key in (str, str.casefold):
        if all(side == sorted(side, key=key) for side in (ours, theirs)):
            return sorted(names, key=key)
    return names


def _written(ours: Statement, theirs: Statement, names: list[str]) -> Text:
    """Return an import of names, over lines where a side has it so or one would be too long."""
    words = ours.words[: [word.text for word in ours.words].index("import") + 1]
    head = "".join(word.space + word.text for word in words)
    one_line = f"{head} {', '.join(names)}{ours.tail}"
    over_lines = any("\n" in word.space for side in (ours, theirs) for word in side.words[1:])
    if not over_lines and len(one_line.splitlines()[-1]) <= _WIDTH:
        return one_line.splitlines(keepends=True)
    listed = [f"{ours.indent}    {name}," for name in names]
    return [f"{head} (", *listed, f"{ours.indent}){ours.tail}"]  # endings are the file's, later
