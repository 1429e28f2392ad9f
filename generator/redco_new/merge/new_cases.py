"""Cases that exclude each other: each an `if` of the same name and of another literal, whose block leaves."""

from collections.abc import Sequence

from redco_new.merge.statements import Statement


def case_of(statements: Sequence[Statement]) -> tuple[str, ...]:
    """Return the name and the literal of an `if name == literal:` whose block leaves; else nothing."""
    code = [x for x in statements if x.words]
    if len(code) < 2:
        return ()
    first, *block = code
    name, signs = first.says[1:-4], (*first.says[:1], *first.says[-4:-2], *first.says[-1:])
    if signs != ("if", "=", "=", ":") or not all(x.isidentifier() or x == "." for x in name):
        return ()
    depth = block[0].indent
    inside = all(x.indent.startswith(depth) and depth > first.indent for x in block)
    leaves = block[-1].indent == depth and block[-1].says[0] in ("return", "raise")
    literal = first.says[-2]
    return ("".join(name), literal) if inside and leaves and literal[0] in "'\"0123456789" else ()
