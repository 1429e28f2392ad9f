"""The search for the cheapest layout ends soon, whatever the model; so does the whole plan."""

import random
import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from redco_new.sharding.choose import choose
from redco_new.sharding.cost import CostModel
from redco_new.sharding.plan import plan_sharding


def tangle(size, edges, seed):
    """Classes in random conflicts, each with work and bytes of its own."""
    rng = random.Random(seed)
    conflicts = {node: set() for node in range(size)}
    for _ in range(edges):
        a, b = rng.sample(range(size), 2)
        conflicts[a].add(b)
        conflicts[b].add(a)
    work = tuple((frozenset({node}), rng.randrange(1, 1000)) for node in range(size))
    moved = {node: rng.randrange(1, 1000) for node in range(size)}
    held = tuple((nodes, 1) for nodes, _ in work)
    model = CostModel(4, moved, work, held)
    return model, {node: frozenset(others) for node, others in conflicts.items()}


@pytest.mark.parametrize(("size", "edges"), [(8, 12), (60, 90), (300, 450), (300, 9000)])
def test_a_tangle_of_conflicts_is_solved_in_bounded_time(size, edges):
    model, conflicts = tangle(size, edges, seed=size)
    start = time.process_time()
    chosen = choose(model, conflicts)
    assert time.process_time() - start < 3
    assert not any(conflicts[node] & chosen for node in chosen)
    assert model.cost(chosen) < model.cost(frozenset())


@pytest.mark.parametrize("seed", range(20))
def test_small_tangles_are_solved_exactly(seed):
    model, conflicts = tangle(7, 10, seed)
    subsets = (
        frozenset(node for node in conflicts if mask >> node & 1)
        for mask in range(2 ** len(conflicts))
    )
    free = [s for s in subsets if not any(conflicts[node] & s for node in s)]
    best = min(model.cost(s) for s in free)
    assert model.cost(choose(model, conflicts)).time == pytest.approx(best.time)


D, N, F, V, T, S, LAYERS = 9216, 72, 36864, 50272, 2050, 2048, 64


def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, jnp.float32)


def layer():
    kernels = {name: shape(D, D) for name in "qkvo"}
    return kernels | {"u": shape(D, F), "ub": shape(F), "d": shape(F, D), "n": shape(D)}


def opt_66b(p, batch):
    x = p["e"][batch["ids"]] + p["p"][jnp.cumsum(batch["ids"] > 0, -1) + 2]
    for w in p["l"]:
        h = jax.nn.standardize(x) * w["n"]
        q, k, v = ((h @ w[name]).reshape(*x.shape[:2], N, -1) for name in "qkv")
        scores = jnp.einsum("bqnh,bknh->bnqk", q, k)
        scores = jax.nn.softmax(jnp.where(np.tril(np.ones((S, S), bool)), scores, -1e9))
        x = x + jnp.einsum("bnqk,bknh->bqnh", scores, v).reshape(x.shape) @ w["o"]
        x = x + jax.nn.relu(jax.nn.standardize(x) @ w["u"] + w["ub"]) @ w["d"]
    return x @ p["e"].T


def test_opt_66b_unrolled_is_planned_in_seconds_and_in_little_memory():
    params = {"e": shape(V, D), "p": shape(T, D), "l": [layer() for _ in range(LAYERS)]}
    batch = {"ids": jax.ShapeDtypeStruct((8, S), jnp.int32)}
    start = time.process_time()
    plan = plan_sharding(opt_66b, params, batch, {"model": 8})
    assert time.process_time() - start < 5
    assert {tuple(layer["q"]) for layer in plan.specs["l"]} == {("fsdp", "model")}
    assert {tuple(layer["d"]) for layer in plan.specs["l"]} == {("model", "fsdp")}
    tracemalloc.start()
    plan_sharding(opt_66b, params, batch, {"model": 8})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6
