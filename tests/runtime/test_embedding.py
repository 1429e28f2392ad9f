"""Rows of a table and its gradient, against plain indexing, on meshes of four devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from redco_runtime.layout.activations import layouts
from redco_runtime.nn.embedding import look_up
from redco_runtime.layout.mesh import make_mesh

from redco_fit.compiled.hlo import collectives

B, D, V = 4, 16, 16
MESHES = (
    {"data": 4},
    {"fsdp": 4},
    {"data": 2, "fsdp": 2},
    {"data": 2, "model": 2},
    {"fsdp": 2, "model": 2},
)
FEW, MANY = 4, 16  # positions: 16 rows of 16 words, fewer than an all-reduce sends, and 64
TABLE, ROWS = P("model", "fsdp"), {"rows_BSD": P("data", None, "fsdp")}


def _step(S, axes, dtype="float32", plain=False):
    """Return the function (table, ids, weights) -> (rows, gradient of the table), and such arrays."""
    keys = jax.random.split(jax.random.key(S), 3)
    table_VD, weights_BSD = jax.random.normal(keys[0], (V, D)), jax.random.normal(
        keys[1], (B, S, D)
    )
    ids_BS = jax.random.randint(keys[2], (B, S), 0, V)

    def step(table_VD, ids_BS, weights_BSD):
        def total(table_VD):
            rows_BSD = table_VD[ids_BS] if plain else look_up(table_VD, ids_BS, dtype, "rows_BSD")
            return (rows_BSD.astype(jnp.float32) * weights_BSD).sum(), rows_BSD

        with layouts(ROWS):
            grad_VD, rows_BSD = jax.grad(total, has_aux=True)(table_VD)
        return rows_BSD, grad_VD

    mesh = make_mesh({"data": 1, "fsdp": 1, "model": 1} | axes, jax.devices()[:4])
    rows = P(("data", "fsdp"))
    places = [NamedSharding(mesh, spec) for spec in (TABLE, rows, rows)]
    function = jax.jit(step, in_shardings=places, out_shardings=(places[1], places[0]))
    return mesh, function, (table_VD, ids_BS, weights_BSD)


@pytest.mark.parametrize("axes", MESHES, ids=str)
@pytest.mark.parametrize("S", (FEW, MANY))
def test_rows_and_gradients_are_those_of_indexing(S, axes):
    _, plain, arrays = _step(S, axes, plain=True)
    mesh, ours, _ = _step(S, axes)
    expected = plain(*arrays)
    with jax.set_mesh(mesh):
        found = ours(*arrays)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6, atol=1e-6)


def test_without_a_mesh_it_is_indexing():
    table_VD, ids_BS = jnp.arange(V * D, dtype=jnp.float32).reshape(V, D), jnp.array([[3, -1]])
    grad_VD = jax.grad(lambda table: look_up(table, ids_BS).sum())(table_VD)
    np.testing.assert_array_equal(look_up(table_VD, ids_BS), table_VD[ids_BS])
    np.testing.assert_array_equal(np.flatnonzero(grad_VD.sum(axis=1)), [3, V - 1])


@pytest.mark.parametrize("S", (FEW, MANY))
def test_gradients_of_rows_in_half_precision_add_up_in_float32(S):
    mesh, ours, (table_VD, _, _) = _step(S, {"data": 4}, "bfloat16")
    ids_BS, weights_BSD = jnp.zeros((B, S), int), jnp.full((B, S, D), 1 / 3)
    with jax.set_mesh(mesh):
        rows_BSD, grad_VD = ours(table_VD, ids_BS, weights_BSD)
    assert rows_BSD.dtype == jnp.bfloat16 and grad_VD.dtype == jnp.float32
    np.testing.assert_allclose(grad_VD[0], B * S / 3, rtol=2**-8)


def test_sums_of_devices_are_sent_in_half_precision():
    mesh, ours, arrays = _step(MANY, {"data": 4}, "bfloat16")
    with jax.set_mesh(mesh):
        text = ours.lower(*arrays).as_text()
    assert f"(tensor<4x{V}x{D}xbf16>, tensor<bf16>)" in text  # what a reduction takes


def test_rows_that_devices_do_not_divide_are_looked_up_as_one():
    mesh, _, (table_VD, ids_BS, weights_BSD) = _step(MANY, {"data": 4})
    ids_BS, weights_BSD = ids_BS.reshape(1, -1), weights_BSD.reshape(1, -1, D)

    def step(rows_of):
        return jax.grad(lambda table_VD: (rows_of(table_VD, ids_BS) * weights_BSD).sum())(table_VD)

    with jax.set_mesh(mesh):
        found = jax.jit(lambda: step(look_up))()
    np.testing.assert_allclose(found, step(lambda table, ids: table[ids]), rtol=1e-6, atol=1e-6)


def test_a_table_of_rows_that_devices_do_not_divide_stays_where_it_is():
    mesh, _, (table_VD, ids_BS, _) = _step(MANY, {"fsdp": 2, "model": 2})

    def rows(table_VD, ids_BS):  # as of a table that is filled up, and cut to its words
        with layouts(ROWS):
            return look_up(table_VD[: V - 1], ids_BS, "float32", "rows_BSD")

    ids_BS = ids_BS % (V - 1)
    with jax.set_mesh(mesh):
        compute = jax.jit(rows, in_shardings=(TABLE, P()), out_shardings=P(None, None, "fsdp"))
        np.testing.assert_array_equal(compute(table_VD, ids_BS), table_VD[ids_BS])
        text = compute.lower(table_VD, ids_BS).compile().as_text()
    assert {one.kind for one in collectives(text, 4)} == {"all-reduce"}


@pytest.mark.parametrize(
    ("S", "axes", "kind", "size"),
    [
        (FEW, {"data": 4}, "all-gather", B * FEW * D),
        (MANY, {"data": 4}, "all-reduce", V * D),
        (FEW, {"data": 2, "model": 2}, "all-gather", B * FEW * D),
        (MANY, {"data": 2, "model": 2}, "all-reduce", V // 2 * D),
    ],
)
def test_devices_send_the_fewer_of_rows_and_sums(S, axes, kind, size):
    mesh, ours, arrays = _step(S, axes)
    with jax.set_mesh(mesh):
        text = ours.lower(*arrays).compile().as_text()
    backward = [one for one in collectives(text, 4) if "transpose" in one.source]
    assert [(one.kind, one.bytes) for one in backward if one.bytes > 4 * B * S] == [
        (kind, 4 * size)
    ]
