"""The slowest process, by what each host spends beside waiting for the devices."""

from dataclasses import replace

import pytest

from redco_runtime.base.progress import Progress
from redco_runtime.cluster.slowest import Slowest


def windows(*shares, seconds=60.0):
    """What is said at the end of each window of the shares of processes 0, 1, ... in it."""
    slowest, sums, said = Slowest(), [(0.0, 0.0)] * len(shares[0]), []
    slowest(dict(enumerate(sums)), seconds)
    for window in shares:
        sums = [(a + b, c + d) for (a, c), (b, d) in zip(sums, window, strict=True)]
        said.append(slowest(dict(enumerate(sums)), seconds))
    return said


def test_the_host_that_the_others_wait_for():
    (slow,) = windows([(2, 58), (2, 58), (55, 5), (3, 57)])
    assert slow[0] == 2
    assert slow[1] == (
        "is the slowest: its host took 55.0 s of the last 60 s for its examples and its part of the "
        "loop, the median process 2.0 s"
    )


def test_of_two_processes():
    assert windows([(2, 58), (40, 20)])[0][0] == 1  # 40 + 20 against 2 + 20


def test_it_is_named_once_and_again_after_it_has_recovered():
    slow, good = [(50, 10), (1, 59)], [(1, 59), (1, 59)]
    said = windows(slow, slow, good, slow, slow[::-1])
    assert [which and which[0] for which in said] == [0, None, None, 0, 1]


def test_what_is_no_slow_host():
    assert windows([(0.2, 59.8), (0.6, 59.4)]) == [None]  # three times as long, and of no weight
    assert windows([(20, 40), (25, 35)]) == [None]  # 60 against 55
    assert windows([(0, 0), (0, 0)]) == [None]  # they compile
    assert windows([(5, 1), (0, 0)], seconds=60) == [None]  # a tenth of the window at least
    assert windows([(55, 5)]) == [None]  # alone


def test_a_process_that_comes_later_is_not_compared_before():
    slowest = Slowest()
    slowest({0: (0.0, 0.0)}, 60)
    assert slowest({0: (2.0, 58.0), 1: (500.0, 0.0)}, 60) is None
    assert slowest({0: (4.0, 116.0), 1: (555.0, 5.0)}, 60)[0] == 1


def test_shares_have_what_goes_on_and_no_save():
    mine = Progress()
    parts = {"the devices": 2, "the loop": 3, "a save": 50, "the examples": 4}
    for what, seconds in parts.items():
        mine.at(what)
        mine.doing = replace(mine.doing, since=mine.doing.since - seconds)
    assert mine.shares() == pytest.approx((3 + 4, 2), abs=0.9)
    mine.at("a save")
    assert mine.shares() == pytest.approx((3 + 4, 2), abs=0.9)
