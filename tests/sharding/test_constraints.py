"""Programs with constraints: the same numbers, and no collective that the layouts do not need."""

import re
from concurrent.futures import ThreadPoolExecutor
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sharding.decoder import (
    BOTH,
    DATA,
    EXPERT,
    FSDP,
    IDS,
    MODEL,
    PARAMS,
    PLAIN,
    B,
    D,
    S,
    compile_step,
    decoder,
)
from sharding.models import ZOO
from sharding.parted import UNOPTIMISED, values
from sharding.zoo import V

from redco_plan import constrain, plan_sharding


def check_equal(forward, params, batch, sizes, **options):
    """Loss and gradients with constraints on a mesh are those on one device without."""
    plan = plan_sharding(forward, params, batch, sizes, **options)
    params, batch = values(params, V), values(batch, V, 1)
    whole, _ = compile_step(forward, None, params, batch)
    parted, split = compile_step(constrain(plan, forward), plan, params, batch)
    assert "sharding_constraint" in parted.as_text()
    with ThreadPoolExecutor(2) as pool:
        programs = pool.map(lambda lowered: lowered.compile(UNOPTIMISED), (whole, parted))
    whole, parted = programs
    expected, found = whole(params, batch), parted(*jax.device_put((params, batch), split))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), found, expected)


QUICK = ("llama", "moe_capacity", "vit")  # a sequence, experts, two axes; the others are slow
CASES = [
    ("mlp", FSDP, False),
    ("dense_general", DATA, False),
    ("gpt2", MODEL, True),
    ("llama", MODEL, True),
    ("fused", FSDP, False),
    ("convnet", BOTH, False),
    ("vit", BOTH, False),
    ("moe_dense", EXPERT, True),
    ("moe_capacity", EXPERT | {"fsdp": 2, "model": 1}, False),
    ("mla", MODEL, True),
    ("mamba", DATA, False),
    ("square", FSDP, False),
    ("recurrent", DATA, False),
    ("own_derivatives", FSDP, False),
    ("branches", MODEL, True),
    ("loops", BOTH, False),
]


@pytest.mark.parametrize(
    ("name", "sizes", "sequence"),
    [case if case[0] in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_constraints_change_no_number(name, sizes, sequence):
    check_equal(*ZOO[name], sizes, sequence_parallel=sequence)


def test_constraints_on_an_axis_that_is_taken_apart_change_no_number():
    """Six heads in 2 parts on 4 devices, all else in 4."""
    options = {"adapt": True, "sequence_parallel": True}
    check_equal(
        decoder(lambda x, _: x, 6),
        PARAMS,
        {"ids": jax.ShapeDtypeStruct((B, 16), jnp.int32)},
        MODEL,
        **options,
    )


COLLECTIVE = re.compile(r"= (.*?) (all-[a-z\-]+|reduce-scatter|collective-permute)\(")


def activations_moved(forward, plan):
    """(operation, shape) of each collective of loss and gradients that moves an activation."""
    text = compile_step(forward, plan, PARAMS, IDS)[0].compile().as_text()
    moved = []
    for types, operation in COLLECTIVE.findall(re.sub(r"\{[\d,]*\}", "", text)):
        for shape in re.findall(r"f32\[([\d,]+)\]", types):
            if prod(map(int, shape.split(","))) % 7 == 0:
                moved.append((operation, shape))
    return moved


def test_fsdp_moves_no_activation_but_rows_looked_up():
    """Each device has a part of each row of the table: it sends them to where the ids are."""
    plan = plan_sharding(PLAIN, PARAMS, IDS, FSDP)
    moved = activations_moved(constrain(plan, PLAIN), plan)
    assert {operation for operation, _ in moved} == {"all-to-all"}
    assert len(moved) == 2 * FSDP["fsdp"]  # forward and backward, an array for each device
    assert len(activations_moved(PLAIN, plan)) > 10


def test_fsdp_adds_no_collective_over_model():
    plan = plan_sharding(PLAIN, PARAMS, IDS, BOTH)
    part = f"{B // 2},{S},{D}"
    moved = [shape for _, shape in activations_moved(constrain(plan, PLAIN), plan)]
    alone = plan_sharding(PLAIN, PARAMS, IDS, {"model": 2})
    expected = [shape for _, shape in activations_moved(PLAIN, alone)]
    assert moved.count(part) <= expected.count(f"{B},{S},{D}")


def test_sequence_parallelism_moves_the_residual_stream_only():
    plan = plan_sharding(PLAIN, PARAMS, IDS, {"model": 2}, sequence_parallel=True)
    moved = activations_moved(constrain(plan, PLAIN), plan)
    assert {operation for operation, _ in moved} == {"all-gather", "all-reduce"}
    assert {shape for _, shape in moved} == {f"{B},{S},{D}"}
    assert sum(operation == "all-gather" for operation, _ in moved) == 4 * 2 + 2
