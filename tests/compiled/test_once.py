"""What a compiled step sends once, whatever the number of chunks, and of micro-batches."""

import json
import subprocess
import sys

import pytest
from compiled.targets import environment

from redco_new.project.create import create_project
from redco_new.request import Request

pytestmark = pytest.mark.slow  # the compiler of H100

# Two layers, so that what each of them sends runs twice. 4 chunks; 4 micro-batches.
PROGRAM = """
import importlib, json, sys
from pathlib import Path
from redco_new.compiled.hlo import collectives
from compiled.kernels import SIZES
from compiled.program import LEAST
from compiled.targets import DEVICES, target_of
from compiled.train_step import compile_train

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
ROWS, S = 16, 256
losses = importlib.import_module("redco_runtime.losses")
losses.CHUNK_BYTES = ROWS * S * SIZES["vocab_size"] * 4 // DEVICES // 4
for axes, micro_batches in (({"fsdp": 4}, 1), ({"data": 4}, 4)):
    step = compile_train(folder, target_of("h100"), axes, ROWS, S, SIZES, micro_batches)
    sent = [one for one in collectives(step.text, DEVICES) if one.bytes >= LEAST]
    print(json.dumps([[one.kind, one.runs, one.bytes] for one in sent]), flush=True)
"""
# Bytes in bfloat16 of the tied table, and of the kernels of both layers.
HEAD = 2 * 640 * 512
LAYERS = 2 * 2 * (512 * (512 + 256 + 256 + 512) + 3 * 512 * 768)


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """[kind, runs, bytes] of each collective: under fsdp, in 4 chunks; of data, in 4 micro-batches."""
    request = Request.from_flags("my-project", "llama", size="3.2-1b")
    folder = create_project(request, tmp_path_factory.mktemp("compiled"))
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_head_is_gathered_and_its_gradient_scattered_once(sent):
    def size(kind):
        return sum(runs * size for name, runs, size in sent[0] if name == kind)

    # The compiler joins what is sent, and adds a few small arrays.
    assert HEAD <= size("all-gather") - 2 * LAYERS < 1.5 * HEAD  # forward and backward
    assert HEAD <= size("reduce-scatter") - LAYERS < 1.5 * HEAD


def test_micro_batches_reduce_gradients_once(sent):
    assert {(kind, runs) for kind, runs, _ in sent[1]} == {("all-reduce", 1)}
