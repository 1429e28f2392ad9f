"""A run of which one process is killed while it saves ends as one that nobody killed. `make table NAME=kills` does so 50 times."""

import pytest
from survival.kills import WHEN, survive


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_nobody_killed(tmp_path):
    (kill,) = survive(tmp_path, 1, seed=10, steps=20).kills
    assert kill.newest > 0 and kill.when == WHEN[2] and len(kill.victims) == 1
