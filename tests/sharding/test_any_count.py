"""Any number of devices: 12 heads, 2 kv heads, 50257 tokens and 2050 positions on 1 to 16."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from generated import users_environ
from sharding.any_count import CASES, COUNTS, EVEN, K, N, T, V, plan_of

from redco_plan import axes_of_entry

SCRIPT = Path(__file__).with_name("any_count.py")


@pytest.fixture(scope="module")
def measured():
    """(n, adapt, vocabulary) -> error, collectives; in a process with 16 virtual devices."""
    made = subprocess.run(
        [sys.executable, SCRIPT],
        env=users_environ() | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return {tuple(case): figures for *case, figures in json.loads(made.stdout)}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "adapt"), CASES)
def test_loss_and_gradients_are_those_of_one_device(measured, n, adapt):
    assert measured[n, adapt, V]["error"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 8])
def test_padding_adds_no_collectives(measured, n):
    padded, even = (measured[n, True, size]["collectives"] for size in (V, EVEN))
    assert padded == even
    assert "all-reduce" in padded


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 8])
def test_kv_heads_in_groups_are_not_gathered(measured, n):
    """Nothing but sums: no queries, keys or values change devices."""
    assert set(measured[n, True, V]["collectives"]) == {"all-reduce"}


def parts_of(plan, path):
    """Parts of the dim of a parameter that is split, or 1."""
    (row,) = [row for row in plan.rows() if row["path"] == path]
    axes = [
        axis for entry in row["spec"] for axis in axes_of_entry(entry) if axis.startswith("model")
    ]
    return math.prod(plan.mesh[axis] for axis in axes)


def reasons_of(plan):
    return {row["path"]: row["reason"] for row in plan.rows()}


@pytest.mark.parametrize("n", COUNTS)
def test_each_dim_is_in_as_many_parts_as_it_has(n):
    plan = plan_of(n, adapt=True)
    assert {parts_of(plan, f"l/{name}") for name in "qo"} == {math.gcd(n, N)}
    assert {parts_of(plan, f"l/{name}") for name in "kv"} == {math.gcd(n, K)}
    assert {parts_of(plan, path) for path in ("t", "l/i", "l/j", "l/b")} == {n}
    assert parts_of(plan, "p") == 1
    assert math.prod(plan.mesh.values()) == n


@pytest.mark.parametrize("n", COUNTS[1:])
def test_padding_is_named(n):
    plan = plan_of(n, adapt=True)
    stored = -(-V // n) * n
    rows = {row["path"]: row for row in plan.rows()}
    assert rows["t"]["stored_shape"][0] == stored
    assert rows["t"]["shard_shape"][0] == stored // n
    assert f"{V} is padded to {stored} in memory, to divide by {n}" in rows["t"]["reason"]
    others = (row for row in rows.values() if row["path"] != "t")
    assert all(row["stored_shape"] == row["shape"] for row in others)


@pytest.mark.parametrize("n", [4, 6, 8, 16])
def test_groups_are_named(n):
    reasons = reasons_of(plan_of(n, adapt=True))
    groups = f"{K} does not divide by {n}: in {K} parts, each on {n // K} devices"
    assert groups in reasons["l/k"] and groups in reasons["l/v"]
    parts = math.gcd(n, N)
    fewer = f"{N} does not divide by {n}: in {parts} parts, each on {n // parts} devices"
    assert (fewer in reasons["l/q"]) == (fewer in reasons["l/o"]) == (parts < n)


def test_what_is_left_whole_is_named():
    whole = "whole: kv_heads is not split: 2 does not divide by 3"
    assert reasons_of(plan_of(3, adapt=True))["l/k"].startswith(whole)
    short = "whole: positions is not split: a short table costs less to keep than to fetch from"
    assert {reasons_of(plan_of(n, adapt=True))["p"] for n in COUNTS} == {short}


@pytest.mark.parametrize("n", COUNTS)
def test_without_adapting_nothing_is_padded_and_the_mesh_is_as_given(n):
    plan = plan_of(n, adapt=False)
    assert plan.mesh == {"data": 1, "fsdp": 1, "model": n}
    assert plan.stored == tuple(parameter.shape for parameter in plan.parameters)
    for row, spec in zip(plan.rows(), plan.partitions, strict=True):
        for size, held, entry in zip(row["shape"], row["shard_shape"], spec, strict=True):
            assert size == held * math.prod(plan.mesh[axis] for axis in axes_of_entry(entry))
    odd = {path: size for path, size in {"t": V, "p": T}.items() if size % n}
    reasons = reasons_of(plan)
    for path, size in odd.items():
        split_otherwise = parts_of(plan, path) == n
        assert split_otherwise or f"{size} does not divide by {n}" in reasons[path]
