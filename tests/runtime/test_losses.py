"""The chunked cross-entropy against plain log_softmax, and what it keeps in memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from jax.sharding import PartitionSpec as P
from redco_runtime.nn import losses
from redco_runtime.layout.activations import layouts
from redco_runtime.base.messages import UserError
from redco_runtime.nn.losses import cross_entropy
from redco_runtime.nn.plain_losses import class_losses, smooth_labels
from redco_runtime.nn.squared_error import squared_error
from redco_runtime.step.gradients import weighted_sum
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.nn.layers import LOGITS, saving

B, D, V = 2, 4, 33


@pytest.fixture(autouse=True)
def strict_ranks():
    with jax.numpy_rank_promotion("raise"):
        yield


def _inputs(S):
    keys = jax.random.split(jax.random.key(S), 3)
    kernel_DV = jax.random.normal(keys[0], (D, V))
    labels_BS = jax.random.randint(keys[1], (B, S), 0, V)
    return kernel_DV, jax.random.normal(keys[2], (B, S, D)), labels_BS


def _plain(kernel_DV, x_BSD, labels_BS):
    log_probs_BSV = jax.nn.log_softmax((x_BSD @ kernel_DV).astype(jnp.float32))
    return -jnp.take_along_axis(log_probs_BSV, labels_BS[..., None], axis=-1)[..., 0]


def _chunked(kernel_DV, x_BSD, labels_BS, chunk=4):
    return cross_entropy(lambda x_BPD: x_BPD @ kernel_DV, x_BSD, labels_BS, chunk)


def _values(jaxpr):
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            yield equation.primitive.name, variable.aval
        for inner in jaxprs_in_params(equation.params):
            yield from _values(inner)


@pytest.mark.parametrize(("S", "chunk"), [(1, 1), (8, 4), (7, 3), (5, 512)])
def test_equals_log_softmax(S, chunk):
    kernel_DV, x_BSD, labels_BS = _inputs(S)
    weights_BS = jax.random.uniform(jax.random.key(9), (B, S))

    def run(function, *args):
        def total(kernel_DV, x_BSD):
            losses_BS = function(kernel_DV, x_BSD, labels_BS, *args)
            assert losses_BS.shape == (B, S) and losses_BS.dtype == jnp.float32
            return (weights_BS * losses_BS).sum(), losses_BS

        step = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)
        return jax.jit(step)(kernel_DV, x_BSD)

    found, expected = run(_chunked, chunk), run(_plain)
    for leaf, reference in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(leaf, reference, rtol=1e-5, atol=1e-5)


def test_low_precision_logits_are_reduced_in_float32():
    kernel_DV, x_BSD, labels_BS = _inputs(6)
    kernel_DV, x_BSD = kernel_DV.astype(jnp.bfloat16), x_BSD.astype(jnp.bfloat16)
    losses_BS = _chunked(kernel_DV, x_BSD, labels_BS)
    assert losses_BS.dtype == jnp.float32
    expected = _plain(kernel_DV, x_BSD, labels_BS)
    np.testing.assert_allclose(losses_BS, expected, rtol=1e-5, atol=1e-5)


def test_never_holds_the_logits_of_the_whole_batch():
    S = 64
    inputs = _inputs(S)

    def largest(function):
        step = jax.grad(lambda *inputs: function(*inputs).sum(), argnums=(0, 1))
        return max(aval.size for _, aval in _values(jax.make_jaxpr(step)(*inputs).jaxpr))

    assert largest(_plain) == B * S * V
    assert largest(lambda *inputs: _chunked(*inputs, chunk=8)) == B * 8 * V


def test_backward_recomputes_the_logits_of_each_chunk_but_not_of_one():
    def matmuls(function, *args):
        step = jax.grad(lambda *inputs: function(*inputs, *args).sum(), argnums=(0, 1))
        values = _values(jax.make_jaxpr(step)(*_inputs(8)).jaxpr)
        return sum(name == "dot_general" for name, _ in values)

    assert (matmuls(_plain), matmuls(_chunked, 4), matmuls(_chunked, 8)) == (3, 4, 3)


def test_logits_that_are_saved_are_made_once(monkeypatch):
    monkeypatch.setattr(losses, "CHUNK_BYTES", 4 * B * V * 2)
    inputs, results, products = _inputs(8), [], []
    for names in ((), (LOGITS,)):
        total = lambda *inputs: _chunked(*inputs, chunk=None).sum()  # noqa: E731 - traced anew
        step = jax.value_and_grad(total, argnums=(0, 1))
        with saving(names):
            jaxpr = jax.make_jaxpr(step)(*inputs).jaxpr
            products.append(sum(name == "dot_general" for name, _ in _values(jaxpr)))
            results.append(jax.tree.leaves(jax.jit(step)(*inputs)))
    assert products == [4, 3]
    for again, once in zip(*results, strict=True):
        np.testing.assert_allclose(again, once, rtol=1e-5, atol=1e-5)


def test_what_is_kept_of_logits_is_in_their_dtype():
    kernel_DV, x_BSD, labels_BS = _inputs(4)
    head_DV, x_BSD = kernel_DV.astype(jnp.bfloat16), x_BSD.astype(jnp.bfloat16)
    _, pull = jax.vjp(lambda x: _chunked(head_DV, x, labels_BS).sum(), x_BSD)
    sizes = {leaf.dtype: leaf.size for leaf in jax.tree.leaves(pull) if hasattr(leaf, "dtype")}
    assert sizes.get(jnp.dtype("float32"), 0) < B * 4 * V


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_on_a_mesh_a_head_that_is_split_gives_what_it_gives_on_one_device(dtype):
    kernel_DV, x_BSD, labels_BS = _inputs(6)
    kernel_DV, x_BSD, labels_BS = kernel_DV[:, :32], x_BSD.repeat(2, 0), labels_BS.repeat(2, 0) % 32

    def total(kernel_DV, x_BSD, weights_BS):
        head_DV = kernel_DV.astype(dtype)
        losses_BS = cross_entropy(
            lambda x: jnp.tanh(x.astype(dtype) @ head_DV), x_BSD, labels_BS, 2
        )
        return (weights_BS * losses_BS).sum()

    arrays = (kernel_DV, x_BSD, jax.random.uniform(jax.random.key(9), labels_BS.shape))
    expected = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(*arrays)
    axes = {"data": 1, "fsdp": 2, "model": 2}
    with jax.set_mesh(make_mesh(axes)), layouts({"x_BSD": P(("data", "fsdp"), None, None)}):
        step = jax.jit(
            jax.value_and_grad(total, argnums=(0, 1)),
            in_shardings=(P("fsdp", "model"), P("fsdp"), P("fsdp")),
        )
        sharded = step(*arrays)
    tolerance = 1e-5 if dtype == "float32" else 1e-2
    for leaf, reference in zip(jax.tree.leaves(sharded), jax.tree.leaves(expected), strict=True):
        scale = np.abs(reference).max()
        np.testing.assert_allclose(leaf, reference, rtol=tolerance, atol=tolerance * scale)


def test_the_gradient_of_the_head_is_summed_in_float32():
    S = 512  # each position adds 1: beyond 256, a sum in bfloat16 stands still

    def total(kernel_DV):
        logits = lambda x_BPD: x_BPD @ kernel_DV  # noqa: E731
        return cross_entropy(logits, x_BSD, jnp.zeros((1, S), jnp.int32), chunk=1).sum()

    x_BSD = jnp.ones((1, S, 1), jnp.bfloat16)
    gradient_DV = jax.jit(jax.grad(total))(jnp.zeros((1, 2), jnp.bfloat16))
    np.testing.assert_array_equal(gradient_DV.astype(jnp.float32), [[-S / 2, S / 2]])


def test_chunks_have_as_many_positions_as_their_bytes_allow(monkeypatch):
    seen = []
    kernel_DV, x_BSD, labels_BS = _inputs(8)

    def logits(x_BPD):
        seen.append(x_BPD.shape[1])
        return x_BPD @ kernel_DV

    monkeypatch.setattr(losses, "CHUNK_BYTES", 4 * B * V * 3)
    cross_entropy(logits, x_BSD, labels_BS)
    assert seen[0] == 8 and {*seen[1:]} == {3}  # the first is asked for V alone


def test_no_gather_reads_the_vocab():
    names = {name for name, _ in _values(jax.make_jaxpr(_chunked)(*_inputs(8)).jaxpr)}
    assert "eq" in names and "gather" not in names


def test_chunks_are_even():
    seen = []
    kernel_DV, x_BSD, labels_BS = _inputs(9)

    def logits(x_BPD):
        seen.append(x_BPD.shape)
        return x_BPD @ kernel_DV

    cross_entropy(logits, x_BSD, labels_BS, chunk=8)
    assert set(seen) == {(B, 5, D)}


def test_ignored_labels_stay_finite():
    kernel_DV, x_BSD, _ = _inputs(5)
    labels_BS = jnp.full((B, 5), -100)

    def weighted(kernel_DV, x_BSD):
        return (0.0 * _chunked(kernel_DV, x_BSD, labels_BS)).sum()

    expected = jax.nn.logsumexp(x_BSD @ kernel_DV, axis=-1)
    np.testing.assert_allclose(_chunked(kernel_DV, x_BSD, labels_BS), expected, rtol=1e-5)
    for gradient in jax.jit(jax.grad(weighted, argnums=(0, 1)))(kernel_DV, x_BSD):
        assert (gradient == 0.0).all()


@pytest.mark.parametrize("chunk", [2, 512])
def test_smoothed_labels_are_those_of_torch(chunk):
    torch = pytest.importorskip("torch")
    kernel_DV, x_BSD, labels_BS = _inputs(5)
    with smooth_labels(0.1):
        value, pull = jax.vjp(lambda k, x: _chunked(k, x, labels_BS, chunk), kernel_DV, x_BSD)
    grads = pull(jnp.ones_like(value))  # outside: what was traced keeps its share
    kernel, x = (torch.tensor(np.asarray(a), requires_grad=True) for a in (kernel_DV, x_BSD))
    peer = torch.nn.CrossEntropyLoss(label_smoothing=0.1, reduction="none")
    theirs = peer((x @ kernel).flatten(0, 1), torch.tensor(np.asarray(labels_BS)).long().flatten())
    theirs.sum().backward()
    np.testing.assert_allclose(value.flatten(), theirs.detach().numpy(), rtol=1e-5)
    for ours, own in zip(grads, (kernel, x), strict=True):
        np.testing.assert_allclose(ours, own.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert not np.allclose(value, _plain(kernel_DV, x_BSD, labels_BS), rtol=1e-3)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("shape", [(5,), (5, 4)], ids=["texts", "tokens"])
def test_losses_of_classes_are_those_of_torch(shape, share):
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(0)
    logits, labels = draw.normal(0, 3, (*shape, 7)).astype(np.float32), draw.integers(0, 7, shape)
    with smooth_labels(share):
        losses, pull = jax.vjp(lambda x: class_losses(x, jnp.asarray(labels)), jnp.asarray(logits))
    theirs = torch.tensor(logits, requires_grad=True)
    peer = torch.nn.CrossEntropyLoss(label_smoothing=share, reduction="none")
    expected = peer(theirs.reshape(-1, 7), torch.tensor(labels).flatten())
    expected.sum().backward()
    np.testing.assert_allclose(losses.flatten(), expected.detach().numpy(), rtol=1e-6, atol=1e-6)
    grads = pull(jnp.ones(shape))[0]
    np.testing.assert_allclose(grads, theirs.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_a_loss_that_smooths_nothing_is_named():
    with smooth_labels(0.0):
        pass
    with pytest.raises(
        UserError, match="--label-smoothing: 0.1, and loss.. in pipeline.py smooths"
    ):
        with smooth_labels(0.1):
            squared_error(jnp.zeros(4), jnp.zeros(4))


def test_an_error_is_of_numbers_of_one_shape():
    """(B, 1) and (B,) would be broadcast to (B, B), and all learned of all."""
    assert squared_error(jnp.array([[3.0]]), jnp.array([[1.0]])).tolist() == [[4.0]]
    with pytest.raises(UserError, match=r"numbers of shape \(4, 1\), and the targets have \(4,\)"):
        squared_error(jnp.zeros((4, 1)), jnp.zeros(4))


def test_a_label_that_is_no_class_has_no_loss_and_none_beside_it_is_another():
    """As labels from 1 on are: of a class that no logit is of, a loss would fall without end."""
    logits, labels = jnp.ones((4, 3)), jnp.array([0, 3, -1, 2])
    assert np.isnan(class_losses(logits, labels)).tolist() == [False, True, True, False]

    def loss(logits):
        return weighted_sum((class_losses(logits, labels), jnp.array([1.0, 0.0, 0.0, 1.0])))[0]

    value, grads = jax.value_and_grad(loss)(logits)
    assert value == pytest.approx(2 * np.log(3)) and np.isfinite(grads).all()
