"""Muon on a mesh: the same numbers however parameters are split, and nothing sent while matrices are turned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from redco_fit.compiled.hlo import collectives
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.layout.mesh import make_mesh
from redco_runtime.step.muon import kind_of, orthogonal, scale_by_muon

SHAPES = {
    "q": (3, 8, 8),
    "o": (3, 8, 8),
    "up": (3, 8, 16),
    "down": (3, 16, 8),
    "expert": (3, 2, 8, 16),
}
READS, WRITES = P(None, "fsdp", "model"), P(None, "model", "fsdp")
SPECS = {"q": READS, "o": WRITES, "up": READS, "down": WRITES}
AXES = {"data": 1, "fsdp": 1, "expert": 1, "model": 1}


def grads():
    keys = jax.random.split(jax.random.key(0), len(SHAPES))
    return {name: jax.random.normal(k, SHAPES[name]) for name, k in zip(SHAPES, keys, strict=True)}


def updates(axes):
    """What the rule makes of `grads` on a mesh, and its compiled program."""
    devices = jax.devices()[: np.prod(list(axes.values()))]
    with jax.set_mesh(make_mesh(AXES | axes, devices)) as _:
        specs = SPECS | {"expert": P(None, "expert", "fsdp", "model")}
        places = jax.tree.map(lambda spec: NamedSharding(jax.sharding.get_mesh(), spec), specs)
        rule = scale_by_muon()

        def update(grads):
            return rule.update(grads, rule.init(grads), grads, specs=specs)[0]

        program = jax.jit(update, in_shardings=(places,), out_shardings=places)
        given = jax.device_put(grads(), places)
        program = program.lower(given).compile()
        return jax.device_get(program(given)), program.as_text()


@pytest.fixture(scope="module")
def unsplit():
    return updates({"data": 1})[0]


@pytest.mark.parametrize(
    ("axes", "sent"),
    [
        ({"fsdp": 2, "model": 2}, "all-to-all"),
        ({"data": 4}, "all-gather"),
        ({"fsdp": 4}, "all-to-all"),
        ({"expert": 2, "data": 2}, "all-gather"),
    ],
    ids=["fsdp-model", "data", "fsdp", "expert"],
)
def test_split_parameters_get_the_updates_of_whole_ones(axes, sent, unsplit):
    split, text = updates(axes)
    for name, update in unsplit.items():  # computed in bfloat16, in another order
        np.testing.assert_allclose(split[name], update, atol=0.03 * np.abs(update).max())
    moves = collectives(text, 4)
    assert {one.kind for one in moves} == {sent}
    # At most 3 kinds of matrices, rows and columns, there and back; in the iteration, 5 times each.
    assert len(moves) <= 12 and {one.runs for one in moves} == {1}


def test_singular_values_come_near_one():
    x_KRC = jax.random.normal(jax.random.key(1), (2, 8, 16)) * 1e-3
    values = np.linalg.svd(orthogonal(x_KRC), compute_uv=False)
    assert values.min() > 0.5 and values.max() < 1.3
    assert not orthogonal(jnp.zeros((1, 4, 4))).any()


def test_what_reads_and_what_writes_heads_are_of_one_kind():
    with jax.set_mesh(make_mesh(AXES | {"fsdp": 2, "model": 2})):
        q, o = (kind_of((3, 8, 8), spec) for spec in (READS, WRITES))
        up, down = kind_of((3, 8, 16), READS), kind_of((3, 16, 8), WRITES)
    assert q[0] == o[0] and q[1] != o[1]
    assert up[0] == down[0] and (up[1], down[1]) == (False, True)


def test_singular_values_go_through_its_polynomial_five_times():
    values = np.array([0.6, 0.8])  # of norm 1
    expected = values
    for _ in range(5):
        expected = 3.4445 * expected - 4.7750 * expected**3 + 2.0315 * expected**5
    found = orthogonal(jnp.diag(5 * values.astype(np.float32))[None])[0]
    np.testing.assert_allclose(found, np.diag(expected), atol=1e-4)
