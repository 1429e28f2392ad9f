"""What a compiled step sends once, whatever the number of chunks, and of micro-batches; and in bfloat16."""

import json
import subprocess
import sys

import pytest
from compiled.targets import environment
from redco_new.project.create import create_project
from redco_new.request import Request

pytestmark = pytest.mark.slow  # the compiler of H100

# Two layers, so that what each of them sends runs twice. 4 chunks; 4 micro-batches; fewer tokens than
# an all-reduce sends rows of the table, and more. The first half of the devices is one of `data`.
PROGRAM = """
import importlib, json, sys
from math import prod
from pathlib import Path
from redco_fit.compiled.hlo import collectives
from compiled.kernels import SIZES
from compiled.program import LEAST
from compiled.targets import DEVICES, target_of
from compiled.train_step import compile_train

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
ROWS, S = 16, 256
losses = importlib.import_module("my_project.runtime.nn.losses")
losses.CHUNK_BYTES = ROWS * S * SIZES["vocab_size"] * 4 // DEVICES // 4
for target, axes, micro_batches, rows in json.loads(sys.argv[2]):
    step = compile_train(folder, target_of(target), axes, rows, S, SIZES, micro_batches)
    n = prod(axes.values())
    sent = [one for one in collectives(step.text, n) if one.bytes >= LEAST]
    print(json.dumps([[one.kind, one.runs, one.bytes, max(one.group or [n]) < n // 2] for one in sent]), flush=True)
"""
DATA, BOTH = {"data": 4}, {"data": 2, "fsdp": 2}
THREE = BOTH | {"model": 2}
LLAMA = [
    ("h100", {"fsdp": 4}, 1, 16),
    ("h100", DATA, 4, 16),
    ("h100", DATA, 1, 4),
    ("h100", DATA, 1, 16),
    ("h100", BOTH, 4, 16),
    ("h100:8", THREE, 1, 16),
    ("h100:8", THREE, 4, 16),
    ("v5e:2x4", THREE, 4, 16),
]
# Bytes in bfloat16 of the tied table, and of the kernels of both layers.
HEAD = 2 * 640 * 512
LAYERS = 2 * 2 * (512 * (512 + 256 + 256 + 512) + 3 * 512 * 768)

# Of the gradients of 4 rows of 256 tokens.
LOOKED_UP = 2 * 4 * 256 * 512


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """[kind, runs, bytes, whether within one of data] of each collective: under fsdp, in 4 chunks; of data, in 4 micro-batches,
    and in one of few rows and of many; of both, in 4 micro-batches; of both and model, in one, and in 4, on H100 and on v5e.
    """
    return compiled(tmp_path_factory.mktemp("compiled"), "llama", "3.2-1b", {}, LLAMA)


def compiled(parent, model, size, mesh, cases):
    """What `sent` has of each case: (target, axes, micro-batches, rows)."""
    folder = create_project(Request.from_flags("my-project", model, size=size, **mesh), parent)
    command = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(cases)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def total(collectives, kind):
    """Bytes that are sent in all by collectives of a kind."""
    return sum(runs * size for name, runs, size, _ in collectives if name == kind)


def test_the_head_is_gathered_and_its_gradient_scattered_once(sent):
    # The compiler joins what is sent, and adds a few small arrays.
    assert HEAD <= total(sent[0], "all-gather") - 2 * LAYERS < 1.5 * HEAD  # forward and backward
    assert HEAD <= total(sent[0], "reduce-scatter") - LAYERS < 1.5 * HEAD


def test_micro_batches_reduce_gradients_once(sent):
    assert {(kind, runs) for kind, runs, *_ in sent[1]} == {("all-reduce", 1)}


def test_beside_fsdp_data_reduces_once_what_fsdp_has_scattered(sent):
    # The gradients of norms, which are whole, change hands between devices of fsdp each time.
    reduced = [one for one in sent[4] if one[0] == "all-reduce" and one[2] > 2**14]
    assert {runs for _, runs, *_ in reduced} == {1}
    assert HEAD + LAYERS <= 2 * total(reduced, "all-reduce") < 1.1 * (HEAD + LAYERS)


@pytest.mark.parametrize("case", (6, 7))
def test_beside_fsdp_and_model_too(sent, case):
    over_data = [one for one in sent[case] if not one[3]]
    assert {kind for kind, *_ in over_data} == {"all-reduce"}
    assert {runs for _, runs, *_ in over_data} == {1}
    assert HEAD + LAYERS <= 4 * total(over_data, "all-reduce") < 1.1 * (HEAD + LAYERS)


def test_gradients_cross_data_once_in_the_dtype_that_is_asked_for(tmp_path):
    """A part of the sum from each device of data, and that part to each: as many bytes as an all-reduce of bfloat16."""
    flags = {"mesh": "data=2,fsdp=2", "gradients_across": "bfloat16"}
    (sent,) = compiled(tmp_path, "llama", "3.2-1b", flags, [("h100", BOTH, 4, 16)])
    across = [one for one in sent if one[0] in ("all-to-all", "all-gather") and not one[3]]
    across = [one for one in across if one[1] == 1]
    for kind in ("all-to-all", "all-gather"):
        assert HEAD + LAYERS <= 2 * total(across, kind) < 1.1 * (HEAD + LAYERS), sent
    assert max((size for kind, _, size, _ in sent if kind == "all-reduce"), default=0) < 2**16


def test_no_table_is_gathered_over_data(sent):
    assert {kind for kind, _, _, within in sent[5] if not within} == {"all-reduce"}


def test_the_gradients_of_rows_that_were_looked_up_are_gathered(sent):
    assert HEAD <= total(sent[2], "all-reduce") - LAYERS < 1.1 * HEAD  # of the head, which is tied
    assert LOOKED_UP <= total(sent[2], "all-gather") < 1.1 * LOOKED_UP


def test_sums_of_many_rows_are_reduced_in_bfloat16(sent):
    assert 2 * HEAD <= total(sent[3], "all-reduce") - LAYERS < 2.1 * HEAD
    assert total(sent[3], "all-gather") == 0


def test_experts_send_rows_in_each_micro_batch_and_gradients_once(tmp_path):
    """Of attention, which each device of `expert` has whole, over all; of experts, over `data`; those are most."""
    axes = {"data": 2, "expert": 4}
    mesh = {"mesh": ",".join(f"{name}={n}" for name, n in axes.items())}
    (sent,) = compiled(tmp_path, "mixtral", "8x7b", mesh, [("h100:8", axes, 4, 32)])
    reduced = [one for one in sent if one[0] == "all-reduce"]
    assert {runs for _, runs, *_ in reduced} == {1} and not any(within for *_, within in reduced)
    experts = 2 * 8 // 4 * 3 * 512 * 768 * 2
    attention = LAYERS - 2 * 2 * 3 * 512 * 768
    assert (
        experts + attention + 2 * HEAD
        <= total(reduced, "all-reduce")
        < 1.02 * (experts + attention + 2 * HEAD)
    )
    assert {kind for kind, runs, *_ in sent if runs > 1} == {"all-gather", "reduce-scatter"}
