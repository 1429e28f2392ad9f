"""The rule of a merge, said of drawn files: what may not matter is merged, what may is told, and what is wrong is refused."""

import random
from itertools import permutations

import pytest

from redco_merge import MergeResult, merge, merge_text
from redco_merge.elements import merge_statement_words
from redco_merge.matching import shared_stretches
from redco_merge.statements import cut_statements
from redco_merge.verify import merge_faults

PLACED = ("x", "x == 1", "(x := 1)", "x if y else z", "*xs", "f(x=1)", "lambda: x", "x[1:2]", "-1")
NAMED = ("x=1", "y=f(a, b)", "z=lambda a: a", "w={'a': 1}")


def woven(base, *sides):
    """A statement of which both sides made another, as text; None where that matters."""
    words = merge_statement_words(*(cut_statements([x])[0].words for x in (base, *sides)))
    return words and "".join(word.space + word.text for word in words)


@pytest.mark.parametrize("brackets", ["f(a{})", "f(a{}, b)", "x = (a{}, b)", "x = [a{}]"])
def test_what_has_a_place_is_never_woven(brackets):
    named = NAMED if brackets == "f(a{})" else ()
    for mine, other in permutations([*PLACED, *named], 2):
        if {mine, other} <= {*NAMED}:
            continue
        sides = (brackets.format(x) for x in ("", f", {mine}", f", {other}"))
        assert woven(*sides) is None, (mine, other)


def test_what_has_a_name_is_there_of_both():
    for mine, other in permutations(NAMED, 2):
        both = woven("f(a)", f"f(a, {mine})", f"f(a, {other})")
        assert both == f"f(a, {mine}, {other})"
        another = f"{mine.partition('=')[0]}=a.b"
        assert woven("f(a)", f"f(a, {mine})", f"f(a, {another})") is None
        assert woven("f(a, a)", f"f(a, a, {mine})", f"f(a, a, {other})") is None


def body(lines):
    return "".join(["def f(c):\n", *(f"    {line}\n" for line in lines)]).encode()


def test_a_name_that_one_side_takes_away_and_the_other_writes_anew_is_told():
    """Where the lines are side by side: apart, git merges them."""
    rng = random.Random(0)
    for _ in range(60):
        base = [f"step_{i}(c.value_{i})" for i in range(rng.randrange(6, 10))]
        gone = rng.randrange(len(base))
        other, mine = base.copy(), base.copy()
        other[gone] = f"step_{gone}(c.another)"
        mine.insert(rng.choice([gone, gone + 1]), f"kept = c.value_{gone}")
        for sides in ((mine, other), (other, mine)):
            merged = merge(body(base), *map(body, sides))
            assert [x.symbol for x in merged.conflicts] == ["f"], sides
            assert merged.content == body(sides[0])


def test_a_line_keeps_the_ending_that_the_user_gave_it():
    """Those of the template have what most lines of the file have."""
    rng = random.Random(1)
    for _ in range(200):
        base = [f"line {i}".encode() for i in range(rng.randrange(3, 9))]
        at = rng.randrange(len(base))
        endings = [rng.choice([b"\n", b"\r\n"]) for _ in base]
        most = b"\r\n" if endings.count(b"\r\n") * 2 > len(base) else b"\n"
        ours = [line + end for line, end in zip(base, endings, strict=True)]
        theirs = [*base[:at], b"other", *base[at + 1 :]]
        merged = merge_text(b"\n".join([*base, b""]), b"".join(ours), b"\n".join([*theirs, b""]))
        ours[at] = b"other" + most
        assert merged == MergeResult(b"".join(ours))


@pytest.mark.parametrize("added", ["log(1)", "if x:\n    log(1)", "x: int = 1", "xs[0] = 1"])
def test_the_check_refuses_twice_what_both_sides_added_outside_of_functions(added):
    statements = ["a = 1\n", "b(2)\n", "def c(x):\n    return x\n", "d = [3]\n"]
    for places in permutations(range(len(statements) + 1), 2):

        def side(*at):
            lines = [
                x for i in range(5) for x in [f"{added}\n"] * (i in at) + statements[i : i + 1]
            ]
            return "".join(lines)

        sides = side(), *(side(at) for at in places), side(*places)
        inside = ["class C:\n" + "".join(f"    {x}\n" for x in s.splitlines()) for s in sides]
        for text in (sides, inside):
            assert merge_faults(*(x.encode() for x in text)), places


def test_imports_of_one_module_in_two_lines_stay():
    sides = (
        b"import os\n",
        b"import os\nfrom m import a\nfrom m import b\n",
        b"import os\nimport sys\n",
    )
    merged = merge(*sides)
    assert not merged.conflicts and merged.content == sides[1] + b"import sys\n"


def test_of_two_depths_the_deeper_ends_the_block_above():
    base = ["if c:", "    step(c)", "return c"]
    deep, flat = body([*base[:2], "    x = 1", *base[2:]]), body([*base[:2], "y = 2", *base[2:]])
    both = body([*base[:2], "    x = 1", "y = 2", *base[2:]])
    assert merge(body(base), deep, flat) == merge(body(base), flat, deep) == MergeResult(both)


def test_imports_of_both_come_first():
    sides = (["import a", "import b", "x = 1"], ["import c", "y = 2"])
    merged = merge(body(["pass"]), *(body(["pass", *side]) for side in sides))
    assert merged == MergeResult(body("pass|import a|import b|import c|x = 1|y = 2".split("|")))


def test_a_name_that_both_import_from_elsewhere_is_told():
    base, ours, theirs = (
        body(["import os", *x]) for x in ([], ["import m.a as x"], ["import m.b as x"])
    )
    merged = merge(base, ours, theirs)
    assert [x.symbol for x in merged.conflicts] == ["f"] and merged.content == ours


def test_a_header_and_the_body_below_it_have_an_order():
    base = body(["for x in c:", "    y = x", "return y"])
    ours = base.replace(b"in c", b"in sorted(c)")
    merged = merge(base, ours, base.replace(b"    y = x", b"    z = x\n        y = x"))
    assert [x.symbol for x in merged.conflicts] == ["f"] and merged.content == ours


def longest(a, b):
    """How many elements two texts have in common, in order."""
    row = [0] * (len(b) + 1)
    for x in a:
        above, row = row, [0]
        for j, y in enumerate(b):
            row.append(above[j] + 1 if x == y else max(above[j + 1], row[j]))
    return row[-1]


def test_what_two_texts_share_is_the_most_that_they_can():
    rng = random.Random(2)
    for _ in range(500):
        a, b = (rng.choices(rng.choice(["ab", "abcd"]), k=rng.randrange(12)) for _ in range(2))
        *blocks, end = shared_stretches(a, b)
        assert end == (len(a), len(b), 0)
        assert all(a[i : i + n] == b[j : j + n] for i, j, n in blocks)
        ends = [(0, 0), *((i + n, j + n) for i, j, n in blocks)]
        assert all(x <= i and y <= j for (x, y), (i, j, _) in zip(ends, blocks, strict=False))
        assert sum(n for _, _, n in blocks) == longest(a, b)


def test_a_block_that_was_there_is_none_that_is_new():
    steps = ["step_1(c)", "step_2(c)", "step_3(c)"]
    base = body(["if c:", "    pass", *steps])
    ours = body(["if c:", *(f"    {step}" for step in steps)])
    merged = merge(base, ours, base.replace(b"step_2(c)", b"step_2(c, 1)"))
    assert [x.symbol for x in merged.conflicts] == ["f"] and merged.content == ours


def wrapped(lines, runs):
    """Lines of a body, in which some runs of them are in blocks of their own."""
    for number, (start, stop) in sorted(enumerate(runs), reverse=True):
        inner = [f"    {line}" for line in lines[start:stop]]
        lines = [*lines[:start], f"with block_{number}:", *inner, *lines[stop:]]
    return lines


def test_blocks_put_around_lines_and_lines_changed_are_both_made():
    """Or told, where the line is next to an end of a block."""
    rng = random.Random(3)
    for _ in range(60):
        base = [f"step_{i}(c)" for i in range(rng.randrange(5, 11))]
        cuts = sorted(rng.sample(range(len(base) + 1), 4))
        runs = rng.choice([[cuts[::3]], [cuts[:2], cuts[2:]], [cuts[:2], cuts[1::2]]])
        changed = base.copy()
        at = rng.randrange(len(base))
        changed[at] = f"step_{at}(c, more=True)"
        sides = body(wrapped(base, runs)), body(changed)
        for ours, theirs in (sides, sides[::-1]):
            merged = merge(body(base), ours, theirs)
            if at in {x - n for run in runs for x in run for n in (0, 1)}:
                assert [x.symbol for x in merged.conflicts] in ([], ["f"])
            else:
                assert merged == MergeResult(body(wrapped(changed, runs))), runs


def in_order(order, edited="", value=1):
    texts = (
        f"def {name}(x):\n    y = x + {value if name == edited else 1}\n    return y\n"
        for name in order
    )
    return "\n\n".join(texts).encode()


def test_an_order_of_definitions_is_the_user_s_where_the_template_made_none():
    base, mine = in_order("abcd"), in_order("dbca", "a", 2)
    merged = merge(base, mine, in_order("abcd", "c", 3))
    assert not merged.conflicts
    assert merged.content == mine.replace(b"c(x):\n    y = x + 1", b"c(x):\n    y = x + 3")
    both = merge(base, mine, in_order("cadb", "c", 3))
    assert [x.symbol for x in both.conflicts] == ["<file>"] and both.content == mine
    # One of the template's alone is taken, beside what is in conflict.
    other = merge(base, in_order("abcd", "d", 2), in_order("cbad", "d", 3))
    assert [x.symbol for x in other.conflicts] == ["d"]
    assert other.content == in_order("cbad", "d", 2)
