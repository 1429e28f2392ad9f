"""A run that is killed while it saves ends as one that nobody killed. `make table NAME=kills` does so 50 times."""

import pytest
from survival.kills import survive


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_nobody_killed(tmp_path):
    survived = survive(tmp_path, 2, seed=5, steps=40)
    assert [one.newest > 0 for one in survived.kills] == [True, True]
