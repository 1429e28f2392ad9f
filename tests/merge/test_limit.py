"""A merge is linear in its file, ends in time, and leaves what it shares with its check as the parser made it."""

import ast
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from redco_merge import WHOLE, MergeResult, limit, merge, python

FUNCTION = '''def f{0}(x, y={0}):
    """Return the sum.

    x: of {0}.
    """
    total = x + {0}
    for i in range(y):
        total += g{0}(i)
    return total


'''


def sides(functions: int) -> tuple[bytes, bytes, bytes]:
    """A file of ten lines a function, of which both sides change the first function in one place."""
    base = "".join(FUNCTION.format(i) for i in range(functions))
    ours = base.replace("total = x + 0\n", "total = x - 0\n").replace("range(y)", "range(1, y)", 3)
    theirs = base.replace("total = x + 0\n", "total = x * 0\n") + "print(f0)\n"
    return base.encode(), ours.encode(), theirs.encode()


def seconds(functions: int) -> float:
    files = sides(functions)
    start = time.process_time()
    assert [x.symbol for x in merge(*files).conflicts] == ["f0"]
    return time.process_time() - start


@pytest.mark.slow
def test_2000_lines_take_a_second_at_most():
    """On a machine that takes half a second; 500 lines tell whether it is linear."""
    small, large = (min(seconds(n) for _ in range(3)) for n in (50, 200))
    assert large < 2.0
    assert large < 8 * small


def test_what_takes_too_long_is_a_conflict(monkeypatch):
    monkeypatch.setattr(python, "_MOST_SECONDS", -1.0)
    base, ours, theirs = sides(3)
    merged = merge(base, ours, theirs)
    assert merged.content == ours
    assert [(x.symbol, "too long" in x.reason) for x in merged.conflicts] == [(WHOLE, True)]
    limit.check_time()  # of no merge


def test_a_slow_file_ends_in_time_in_any_thread(monkeypatch):
    """Without the limit this one takes ten times as long."""
    monkeypatch.setattr(python, "_MOST_SECONDS", 0.1)

    def timed(files: tuple[bytes, bytes, bytes]) -> tuple[MergeResult, float]:
        start = time.thread_time()
        return merge(*files), time.thread_time() - start

    with ThreadPoolExecutor(1) as pool:
        merged, took = pool.submit(timed, sides(600)).result()
    assert [(x.symbol, "too long" in x.reason) for x in merged.conflicts] == [(WHOLE, True)]
    assert took < 2.0


def test_merges_in_several_threads_are_as_one_after_the_other():
    files = [sides(n) for n in (5, 10, 20, 40)] * 2
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda x: merge(*x), files))
    assert at_once == [merge(*x) for x in files]


def test_trees_stay_as_the_parser_made_them():
    files = sides(3)
    merged = merge(*files)
    for data in (*files, merged.content):
        assert ast.dump(limit.tree_of(data.decode())) == ast.dump(ast.parse(data))
