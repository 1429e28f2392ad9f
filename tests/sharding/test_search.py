"""The search for the cheapest layout ends soon, whatever the model; so does the whole plan."""

import dataclasses
import random
import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families.parity import emitted
from flax import nnx
from jax.sharding import PartitionSpec as P

from redco_plan import plan_sharding, search
from redco_plan.cost import CostModel
from redco_plan.search import choose_classes
from redco_new.models.find import find_model


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
    chosen = choose_classes(model, conflicts)
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
    assert model.cost(choose_classes(model, conflicts)).time == pytest.approx(best.time)


@pytest.mark.parametrize("branches", [0, search.BRANCHES])
def test_a_class_that_gains_nothing_stays_whole(monkeypatch, branches):
    """Also where the search goes on greedily."""
    monkeypatch.setattr(search, "BRANCHES", branches)
    conflicts = {0: frozenset({1}), 1: frozenset({0})}
    assert choose_classes(CostModel(4, {0: 0, 1: 0}, (), ()), conflicts) == frozenset()


def test_what_is_exchanged_costs_what_it_costs_anew():
    rng, parts = random.Random(0), {node: 2 for node in range(0, 9, 2)}
    work = tuple((frozenset(rng.sample(range(9), 3)), rng.randrange(1, 99)) for _ in range(40))
    model = CostModel(4, {node: node for node in range(9)}, work, work[:20], parts)
    split, sums = frozenset({1, 2}), model.nothing
    sums = model.exchange(sums, frozenset(), frozenset(), split)
    sums = model.exchange(sums, split, frozenset({2}), frozenset({4, 7}))
    chosen = {1, 4, 7}
    ways = [max((parts.get(n, 4) for n in nodes & chosen), default=1) for nodes, _ in work]
    assert sums.repeated == sum(
        (4 // k - 1) * flops for k, (_, flops) in zip(ways, work, strict=True)
    )
    assert sums.memory == sum(size // k for k, (_, size) in zip(ways, work[:20], strict=False))
    assert sums.moved == 12 and model.price(sums) == model.cost(frozenset(chosen))


def test_each_block_is_priced_by_what_it_has(monkeypatch):
    def priced(blocks):
        seen, items = [], CostModel._items
        monkeypatch.setattr(
            CostModel, "_items", lambda *args: (seen.append(1) or one for one in items(*args))
        )
        work = tuple((frozenset({i, i + 1}), 9) for i in range(0, 3 * blocks, 3))
        conflicts = {node: frozenset() for node in range(3 * blocks)}
        choose_classes(CostModel(4, dict.fromkeys(conflicts, 1), work, work), conflicts)
        monkeypatch.setattr(CostModel, "_items", items)
        return len(seen)

    assert priced(200) == 2 * priced(100) > 0


D, N, F, V, T, S, LAYERS = 9216, 72, 36864, 50272, 2050, 2048, 64
CAUSAL = np.tril(np.ones((S, S), bool))


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
        scores = jax.nn.softmax(jnp.where(CAUSAL, scores, -1e9))
        x = x + jnp.einsum("bnqk,bknh->bqnh", scores, v).reshape(x.shape) @ w["o"]
        x = x + jax.nn.relu(jax.nn.standardize(x) @ w["u"] + w["ub"]) @ w["d"]
    return x @ p["e"].T


def seconds_to_plan(forward, params, batch):
    """(CPU seconds, the plan)"""
    start = time.process_time()
    plan = plan_sharding(forward, params, batch, {"model": 8})
    return time.process_time() - start, plan


def peak_of_planning(forward, params, batch):
    """The most bytes that planning holds at a time, once JAX has met each operation."""
    plan_sharding(forward, params, batch, {"model": 8})
    tracemalloc.start()
    plan_sharding(lambda p, b: forward(p, b), params, batch, {"model": 8})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_opt_66b_unrolled_is_planned_in_seconds_and_in_little_memory():
    params = {"e": shape(V, D), "p": shape(T, D), "l": [layer() for _ in range(LAYERS)]}
    batch = {"ids": jax.ShapeDtypeStruct((8, S), jnp.int32)}
    seconds, plan = seconds_to_plan(opt_66b, params, batch)
    assert seconds < 5
    assert {tuple(layer["q"]) for layer in plan.specs["l"]} == {("fsdp", "model")}
    assert {tuple(layer["d"]) for layer in plan.specs["l"]} == {("model", "fsdp")}
    assert peak_of_planning(opt_66b, params, batch) < 50e6


gpt_j = emitted(find_model("gpt-j", "", 1))[0]


class Unrolled(nnx.Module):
    """GPT-J, each of its layers a module of its own."""

    def __init__(self, config, rngs):
        self.whole = gpt_j.GPTJ(dataclasses.replace(config, num_layers=1), rngs=rngs)
        del self.whole.layers
        self.layers = nnx.List([gpt_j.Layer(config, rngs) for _ in range(config.num_layers)])
        self.rotary_dim = config.rotary_dim

    def __call__(self, ids_BS):
        x_BSD = self.whole.embed(ids_BS).astype(jnp.bfloat16)
        rotary = gpt_j._rotary(jnp.arange(ids_BS.shape[1])[None, :], self.rotary_dim)
        for layer in self.layers:
            x_BSD = layer(x_BSD, rotary, gpt_j._attend_causal(None))[0]
        return self.whole.logits(gpt_j._norm(self.whole.ln, x_BSD))


def unrolled(**sizes):
    """(forward, params, batch) of GPT-J with other sizes than its own, unrolled."""
    config = gpt_j.GPTJConfig(**sizes)
    graph, params = nnx.split(nnx.eval_shape(lambda: Unrolled(config, nnx.Rngs(0))), nnx.Param)
    batch = {"ids": jax.ShapeDtypeStruct((8, 2048), jnp.int32)}
    return lambda p, b: nnx.merge(graph, p)(b["ids"]), nnx.to_pure_dict(params), batch


def test_gpt_j_unrolled_is_planned_in_seconds_as_an_expert_would():
    model = unrolled()
    seconds, plan = seconds_to_plan(*model)
    assert seconds < 5
    layers = plan.specs["layers"]
    assert len(layers) == 28
    assert all(layers[i] == layers[0] for i in layers)
    columns, rows = {"kernel": P("fsdp", "model")}, {"kernel": P("model", "fsdp")}
    assert layers[0]["attn"] == dict.fromkeys("qkv", columns) | {"o": rows}
    assert layers[0]["mlp"] == {
        "up": columns | {"bias": P("model")},
        "down": rows | {"bias": P(None)},
    }


def test_memory_to_plan_does_not_grow_with_the_model():
    small = unrolled(embed_dim=64, mlp_dim=256, rotary_dim=4, num_layers=6)
    large = unrolled(num_layers=6)
    assert large[1]["layers"][0]["mlp"]["up"]["kernel"].shape == (4096, 16384)
    assert peak_of_planning(*large) < 1.5 * peak_of_planning(*small)


@pytest.mark.parametrize(
    ("held", "images", "split"), [(100, True, True), (1, False, True), (1, True, False)]
)
def test_bytes_count_for_more_where_images_are_many_times_the_parameters(held, images, split):
    """Half of the work against 0.4 of the bytes that could be moved."""
    nodes, other = frozenset({1}), frozenset({2})
    memory = ((nodes, held), (other, held))
    model = CostModel(2, {1: 400, 2: 600}, ((nodes, 45), (other, 55)), memory, images=images)
    alone, nothing = model.cost(nodes), model.cost(frozenset())
    assert (alone.time < nothing.time) == split
