"""Three-way merge of the imports of one place, as sets of statements and of the names of each."""

import re
from dataclasses import replace

from redco_merge.elements import merge_statement_words
from redco_merge.statements import Statement, Word

Text = list[str]
_REMARK = re.compile(r"[ \t]*#[^\r\n]*")


def merge_import_block(
    base: list[Statement], ours: list[Statement], theirs: list[Statement]
) -> list[Statement | Text] | None:
    """Return the imports with the changes of both sides, ours first; None where it is unclear."""
    if not all(is_import(x) for x in (*base, *ours, *theirs)):
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
    b, o, t = ({y for x in side for y in bindings_of(x)} for side in (base, ours, theirs))
    mine, others = ({alias for _, alias in side - b - common} for side, common in ((o, t), (t, o)))
    not_mine, not_others = ({alias for _, alias in b - side} for side in (o, t))
    return bool(mine & others or mine & not_others or others & not_mine)


def bindings_of(statement: Statement) -> list[tuple[str, str]]:
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
    base: Statement | None, ours: Statement, theirs: Statement | None
) -> Statement | Text | None:
    """Merge one import by its names, or None."""
    if theirs is None or theirs.key == ours.key or (base and theirs.key == base.key):
        return ours
    if base and ours.key == base.key:
        return theirs
    sides = [base or _none_of(ours), ours, theirs]
    if any(side.remarks for side in sides):
        if not base or not _drops_remarks(base, ours, theirs):
            return None
        sides = [_without_remarks(side) for side in sides]
    before, mine, other = sides
    if other.says in (before.says, mine.says):
        return mine.lines
    if mine.says == before.says:
        return other.lines
    like = mine if len(mine.words) >= len(other.words) else other
    bracketed = [_in_brackets(side) for side in sides]
    reordered = next(
        (x for x in bracketed[1:] if _in_order_of(bracketed[0], x) != bracketed[0]), None
    )
    if reordered:
        like = mine if reordered is bracketed[1] else other
        bracketed = [_in_order_of(side, reordered) for side in bracketed]
    words = merge_statement_words(*bracketed)
    return None if words is None else _written(words, like)


def _drops_remarks(base: Statement, ours: Statement, theirs: Statement) -> bool:
    """Return whether one side drops the remarks that the other leaves, such as a `# noqa`."""
    others = {side.remarks for side in (ours, theirs)} - {()}
    return others == {base.remarks} and not all(side.remarks for side in (ours, theirs))


def _without_remarks(statement: Statement) -> Statement:
    words = tuple(word._replace(space=_REMARK.sub("", word.space)) for word in statement.words)
    tail = _REMARK.sub("", statement.tail)
    return replace(statement, words=words, tail=tail, remarks=())


def _in_order_of(side: list[Word], like: list[Word]) -> list[Word]:
    """Return the words of an import, its names in the order of another's; what that lacks stays behind the same name."""
    at = next(i for i, word in enumerate(side) if word.text == "(") + 1
    names = _names(side)
    order = {key: i for i, key in enumerate(_names(like))}
    place = -1
    places = {}
    for key in names:
        place = order.get(key, place)
        places[key] = place
    if list(names) == sorted(names, key=places.__getitem__):
        return side
    in_order = [names[key] for key in sorted(names, key=places.__getitem__)]
    spaces = [words[0].space for words in names.values()]
    listed = [
        [words[0]._replace(space=space), *words[1:], Word("", ",")]
        for words, space in zip(in_order, spaces, strict=True)
    ]
    comma = side[-2].text == ","
    flat = [word for words in listed for word in words]
    return [*side[:at], *(flat if comma else flat[:-1]), side[-1]]


def _names(side: list[Word]) -> dict[tuple[str, ...], list[Word]]:
    """Return the words of each name in the brackets of an import, by what they say."""
    at = next(i for i, word in enumerate(side) if word.text == "(") + 1
    names: list[list[Word]] = [[]]
    for word in side[at:-1]:
        if word.text == ",":
            names.append([])
        else:
            names[-1].append(word)
    return {tuple(word.text for word in words): words for words in names if words}


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
