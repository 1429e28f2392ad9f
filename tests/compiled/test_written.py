"""Models that an expert would write in another way send no more than what the expert writes."""

import json
import subprocess
import sys

import pytest
from compiled.targets import environment
from compiled.written import MODELS

pytestmark = pytest.mark.slow  # the compiler of H100


@pytest.fixture(scope="module")
def records():
    command = [sys.executable, "-m", "compiled.written"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert not done.returncode, done.stderr[-4000:]
    return {record["model"]: record for record in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", MODELS)
def test_ours_sends_no_more_than_what_the_expert_writes(records, name):
    ours, hand = records[name]["ours"], records[name]["hand"]
    assert ours["units"] <= hand["units"], ours["found"]
    assert sum(ours["counts"].values()) <= sum(hand["counts"].values()), ours["found"]
    assert ours["remats"] == 0
