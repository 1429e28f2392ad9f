"""What holds for every merge, on random files with random edits.

Few examples of each here; tests/tools/merges/measure.py runs ten thousand.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from merge.edits import parses
from merge.oracle import text_of, wrong
from merge.triples import Triple, apart, contested, lines_apart, triple

from redco_merge import WHOLE, merge, merge_text

EXAMPLES = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

MANY = settings(EXAMPLES, max_examples=500)
FEW = settings(EXAMPLES, max_examples=60)


@st.composite
def drawn(draw, make) -> Triple:
    return make(lambda n: draw(st.integers(0, n - 1)))


@pytest.mark.slow
@MANY
@given(drawn(triple))
def test_nothing_is_lost_or_broken(sides):
    assert wrong(*sides, merge(*sides)) == []


@EXAMPLES
@given(drawn(triple))
def test_one_side_alone(sides):
    base, ours, theirs = sides
    for function in (merge, merge_text):
        assert function(base, ours, base).content == ours
        assert function(base, base, theirs).content == theirs
        assert function(base, ours, ours).content == ours


@pytest.mark.slow
@EXAMPLES
@given(drawn(contested))
def test_taken_conflicts_give_up_nothing_else(sides):
    plain = merge(*sides)
    names = [conflict.symbol for conflict in plain.conflicts]
    merged = merge(*sides, prefer_theirs=names)
    left = {conflict.symbol for conflict in merged.conflicts}
    done = [conflict for conflict in plain.conflicts if conflict.symbol not in left]
    assert left <= set(names)
    given_up = text_of(sides.ours, sides.theirs, done)
    assert WHOLE in names or wrong(*sides, merged, given_up) == []


@FEW
@given(drawn(apart))
def test_edits_of_different_symbols_do_not_conflict(sides):
    merged = merge(*sides)
    assert merged.conflicts == []
    assert wrong(*sides, merged) == []


@FEW
@given(drawn(lines_apart))
def test_edits_of_different_lines_do_not_conflict(sides):
    merged = merge(*sides)
    assert merged.conflicts == []
    assert wrong(*sides, merged) == []
    as_git = merge_text(*sides)  # to which lines side by side are a conflict
    assert as_git.conflicts or as_git == merged


@EXAMPLES
@given(st.binary(max_size=9), st.binary(max_size=9), st.binary(max_size=9))
def test_any_bytes(base, ours, theirs):
    merged = merge(base, ours, theirs)
    if {conflict.symbol for conflict in merged.conflicts} == {WHOLE}:
        assert merged.content == ours
    merge_text(base, ours, theirs)


PIECES = ["\n", "\r", "\r\n", " ", "    ", "\t", "\f", "# c", "x = 1", "if x:", "(", ")", "'''"]
TEXTS = st.lists(st.sampled_from([*PIECES, ";", "\\\n", "pass", "class A:", "import a"]))


@EXAMPLES
@given(*[TEXTS.map("".join)] * 3)
def test_any_text(base, ours, theirs):
    merged = merge(base.encode(), ours.encode(), theirs.encode()).content
    assert merged in (ours.encode(), theirs.encode()) or parses(merged.decode())
