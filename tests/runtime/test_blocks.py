"""Matrices in few bits: how near they are, what a step keeps of them, and how they are read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from redco_runtime.nn.adapters.blocks import INT8, NF4
from redco_runtime.checkpoints.lora.lora import whole_kernels
from redco_runtime.checkpoints.lora.qlora import InBlocks
from redco_runtime.base.messages import UserError
from redco_runtime.nn.matrices import NORMAL, restore
from redco_runtime.base.hf_files import Stored
from redco_runtime.base.tensors import Tensor

FORMS = {"int8": INT8, "nf4": NF4}


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "name, bytes_of_64, error",
    [("int8", 64 + 4, 0.01), ("nf4", 32 + 4, 0.1)],
)
def test_a_matrix_is_nearly_what_is_stored(name, bytes_of_64, error):
    form, matrix = FORMS[name], normal(2, 128, 16)
    codes, scales = form.quantize(jnp.asarray(matrix), 64)
    assert codes.nbytes + scales.nbytes == bytes_of_64 * matrix.size // 64
    restored = np.asarray(restore(codes, scales, jnp.float32))
    assert np.sqrt(np.mean((restored - matrix) ** 2)) < error
    again, _ = form.quantize(jnp.asarray(restored), 64)
    assert (again == codes).all()
    assert whole_kernels({"q/codes": codes, "q/scales": scales})["q/kernel"].shape == matrix.shape


def test_levels_are_the_nearest():
    values = np.linspace(-1, 1, 100).astype(np.float32)
    column = np.concatenate([values, [1.0, -1.0]]).astype(np.float32)[:, None]
    restored = restore(*NF4.quantize(jnp.asarray(column), 102), jnp.float32)[:100, 0]
    levels = np.asarray(NORMAL, np.float32)
    nearest = levels[np.abs(values[:, None] - levels).argmin(axis=1)]
    np.testing.assert_allclose(restored, nearest, rtol=1e-6)


def test_zeros_stay_and_odd_rows_are_refused():
    for form in FORMS.values():
        zeros = form.quantize(jnp.zeros((4, 2)), 4)
        assert (restore(*zeros, jnp.float32) == 0).all()


@pytest.mark.parametrize(
    "form, rows, block", [(NF4, 3, 64), (NF4, 128, 7), (INT8, 128, 7), (INT8, 128, 0), (NF4, 8, -4)]
)
def test_blocks_that_share_nothing_are_refused(form, rows, block):
    message = f"--lora-block: with {block}, 1 of {rows} rows share a scale: give an? .*number"
    with pytest.raises(UserError, match=message):
        form.quantize(jnp.zeros((rows, 2)), block)


@pytest.mark.parametrize("name", FORMS)
def test_a_product_has_its_gradient_and_keeps_no_matrix(name):
    form, x = FORMS[name], jnp.asarray(normal(3, 5, 64))
    stored = form.quantize(jnp.asarray(normal(64, 24)), 16)
    matrix = restore(*stored, jnp.float32)
    y, back = jax.vjp(lambda x: form.product(x, *stored), x)
    np.testing.assert_allclose(y, x @ matrix, rtol=1e-6)
    np.testing.assert_allclose(back(y)[0], y @ matrix.T, rtol=1e-5)
    kept = [leaf for leaf in jax.tree.leaves(back) if leaf.dtype == jnp.float32]
    assert all(leaf.size <= stored[1].size for leaf in kept)


@pytest.mark.parametrize("order", [(), (1, 0)])
@pytest.mark.parametrize("name", FORMS)
def test_parts_that_are_read_are_those_of_the_whole(name, order):
    """Codes and scales of layers, each of which is columns 3 to 10 of what a file has."""
    form, files = FORMS[name], {f"h.{i}.w": normal(32, 12) + i for i in range(2)}
    kernels = jnp.asarray(np.stack([x[:, 3:11] for x in files.values()]))
    codes, scales = form.quantize(kernels, 8)
    arrays = {key: x.T if order else x for key, x in files.items()} | {"norm": normal(4)}
    part = (0 if order else 1, 3, 11)
    table = {"layers/q/kernel": Tensor("h.{}.w", order, part), "norm": Tensor("norm")}
    like = {"layers/q/codes": codes, "layers/q/scales": scales, "norm": arrays["norm"]}
    shapes = {path: jax.ShapeDtypeStruct(x.shape, x.dtype) for path, x in like.items()}
    one = InBlocks(Stored(None, arrays), {key: key for key in arrays}, table, shapes)
    assert one.table.keys() == like.keys()
    assert (one.read("norm", (slice(1, 3),)) == arrays["norm"][1:3]).all()
    for end, whole in (("codes", codes), ("scales", scales)):
        name = f"layers/q/{end} {1}"
        assert one.shapes[name] == whole.shape[1:]
        index = (slice(1, 3), slice(0, whole.shape[2]), slice(2, 5))
        np.testing.assert_array_equal(one.read(name, index), whole[1][index])
