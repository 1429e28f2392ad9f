"""What the tests of a cluster need: without it they end with exit code 2 and say what is missing."""

import pytest

from cluster.hosts import find_lacks
from cluster.slurm import PROGRAMS


def pytest_sessionstart(session):
    if lacks := find_lacks(PROGRAMS):
        pytest.exit(
            "\n  ".join(["make test-apart NAME=cluster: this machine lacks", *lacks]), returncode=2
        )
