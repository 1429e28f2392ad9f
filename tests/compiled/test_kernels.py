"""Attention in the train step of a project, compiled for H100 and v5e."""

import json
import subprocess
import sys

import pytest
from compiled.targets import environment
from redco_new.project.create import create_project
from redco_new.request import Request

pytestmark = pytest.mark.slow  # the compilers of H100 and v5e


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """compiled(target, *ways): what kernels.py prints of a project."""
    request = Request.from_flags("my-project", "llama", size="3.2-1b", mesh="fsdp=2,model=2")
    folder = create_project(request, tmp_path_factory.mktemp("compiled"))

    def run(*arguments):
        target, *ways = arguments
        command = [sys.executable, "-m", "compiled.kernels", target, str(folder), *ways]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_cudnn_writes_no_scores_and_sends_nothing(compiled):
    ours, formula = compiled("h100", "kernels", "formula")
    # Once forward: the log-sum-exp is saved with the output.
    # Two layers a turn of the loop (xla_flags.py), each with its kernel once forward and once backward.
    assert ours["kernels"] == {"__cudnn$fmhaSoftmax": 2, "__cudnn$fmhaSoftmaxBackward": 2}
    assert (ours["squares"], ours["around"]) == ([], [])
    assert formula["squares"] and not formula["kernels"]
    assert ours["sent"] == formula["sent"]


def test_splash_writes_no_scores_and_sends_nothing(compiled):
    (ours,) = compiled("v5e", "kernels")  # a minute of libtpu's; the formula takes as long again
    assert ours["kernels"] == {"tpu_custom_call": 3}  # forward, and two backward
    assert (ours["squares"], ours["around"]) == ([], [])
