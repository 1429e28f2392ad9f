"""A step over devices beside that on one: which numbers are the same, and which a sum of what is split has changed."""

from types import SimpleNamespace

import pytest

from redco_new.check.measure.step import Outcome, difference

PROJECT = SimpleNamespace(mesh={"data": 2}, runtime=lambda name: SimpleNamespace(owner=None))


def outcome(**values):
    return Outcome(values, {}, {}, {}, values)


@pytest.mark.parametrize(
    "one, other, same",
    [
        (92.0, 92.0005, True),
        (92.0, 92.002, False),
        (-4.84288e-08, -5.2806e-07, True),  # of ppo: a mean of advantages, which cancel
        (0.0, 2e-6, False),
        (0.05, 0.051, False),
        (1.0, float("nan"), False),
    ],
)
def test_numbers_of_a_step_are_the_same_but_for_roundings(one, other, same):
    said = difference(PROJECT, outcome(actor=one), outcome(actor=other))
    assert (said == "") == same and (same or said.startswith("actor of a step is"))
