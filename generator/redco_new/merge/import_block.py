"""Three-way merge of the imports of one place, as sets of statements and of the names of each."""

import re

from redco_new.merge.elements import merge_statement_words
from redco_new.merge.statements import Statement, Word

Text = list[str]


def merge_import_block(
    base: list[Statement], ours: list[Statement], theirs: list[Statement]
) -> list[Statement | Text] | None:
    """Return the imports with the changes of both sides, ours first; None where it is unclear."""
    if not all(_is_import(x) for x in (*base, *ours, *theirs)):
        return None
    keys = [[_subject(x) for x in side] for side in (base, ours, theirs)]
    if any(len({*side}) < len(side) for side in keys):
        return None
    b, o, t = (
        {k: x for k, x in zip(ks, side, strict=True)}
        for ks, side in zip(keys, (base, ours, theirs), strict=True)
    )
    merged: dict[str, Statement | Text] = {}
    for key, mine in o.items():
        if key in b and key not in t:
            if mine.says != b[key].says:
                return None
            continue
        one = _merged(b.get(key), mine, t.get(key))
        if one is None:
            return None
        merged[key] = one
    order = list(merged)
    for i, key in enumerate(keys[2]):
        if key in o:
            continue
        if key in b:
            if t[key].says != b[key].says:
                return None
            continue
        below = next((order.index(k) for k in keys[2][i + 1 :] if k in order), len(order))
        order.insert(below, key)
        merged[key] = t[key]
    if _binds_anew(base, ours, theirs):
        return None
    if all(_rises(side) for side in keys[1:]):
        order.sort(key=_rank)
    return [merged[key] for key in order]


def _binds_anew(base: list[Statement], ours: list[Statement], theirs: list[Statement]) -> bool:
    """Return whether both sides bind one name, each to something that the other does not."""
    b, o, t = ({y for x in side for y in _bindings(x)} for side in (base, ours, theirs))
    mine, others = ({alias for _, alias in side - b - common} for side, common in ((o, t), (t, o)))
    not_mine, not_others = ({alias for _, alias in b - side} for side in (o, t))
    return bool(mine & others or mine & not_others or others & not_mine)


def _bindings(statement: Statement) -> list[tuple[str, str]]:
    """Return (where from, the name that the file has for it) of each name of an import."""
    words = [x for x in statement.says if x not in ("(", ")")]
    at = words.index("import") + 1
    parts = " ".join(words[at:]).split(" , ")
    source = "".join(words[:at])
    return [(f"{source} {part}", part.rpartition(" as ")[2].partition(" ")[0]) for part in parts]


def _rises(keys: list[str]) -> bool:
    return keys == sorted(keys, key=_rank)


def _rank(key: str) -> tuple[int, str]:
    return (0 if key.startswith("import ") else 1), key.casefold()


def _is_import(statement: Statement) -> bool:
    return statement.says[:1] in (("import",), ("from",)) and not statement.remarks


def _subject(statement: Statement) -> str:
    """Return what an import is of: its module, of an `import` all of it."""
    says = statement.says
    if says[0] == "from":
        return "from " + "".join(says[1 : says.index("import")])
    return "import " + " ".join(says[1:])


def _merged(
    base: Statement | None, ours: Statement, theirs: Statement | None
) -> Statement | Text | None:
    """Merge one import by its names, or None."""
    if theirs is None or theirs.says == ours.says or (base and theirs.says == base.says):
        return ours
    if base and ours.says == base.says:
        return theirs
    sides = [_in_brackets(x) for x in (base or _none_of(ours), ours, theirs)]
    words = merge_statement_words(*sides)
    if words is None:
        return None
    return _written(words, ours if len(ours.words) >= len(theirs.words) else theirs)


def _none_of(ours: Statement) -> Statement:
    """Return an import from the same module without a name."""
    at = [word.text for word in ours.words].index("import")
    return Statement(ours.start, ours.stop, ours.indent, ours.words[: at + 1], ours.tail, ())


def _in_brackets(statement: Statement) -> list[Word]:
    """Return the words of an import whose names are in brackets."""
    words = list(statement.words)
    if words[-1].text == ")":
        return words
    at = [word.text for word in words].index("import") + 1
    return [*words[:at], Word(" ", "("), *words[at:], Word("", ")")]


def _written(words: list[Word], like: Statement) -> Text:
    """Return an import in brackets or without, as `like` is, and with its line ending."""
    text = "".join(word.space + word.text for word in words)
    if like.words[-1].text != ")":
        head, _, names = text.partition("(")
        text = head.rstrip(" ") + " " + re.sub(r",?\s*\)$", "", names).strip()
        text = re.sub(r"\s*,\s*", ", ", text)
    return (text + like.tail).splitlines(keepends=True)
