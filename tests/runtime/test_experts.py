"""Experts by products of groups of rows, on meshes, beside every expert on every token."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from redco_runtime.layout.activations import layouts
from redco_runtime.nn.adapters.blocks import INT8, NF4
from redco_runtime.nn.adapters.expert_kernels import AdaptedKernel
from redco_runtime.nn.experts.chosen import chosen_experts
from redco_runtime.nn.experts.expert_blocks import block_rows
from redco_runtime.nn.experts.expert_rows import PRODUCTS, Product
from redco_runtime.nn.experts.experts import expert_load, experts, router_loss
from redco_runtime.step.flops import count_flops
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.step.once import OnceAStep
from redco_runtime.nn.experts.grouped_matmul import multiply_groups
from redco_runtime.nn.matrices import restore
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.base.state import ModelState

B, S, D, F, E, X = 4, 6, 8, 16, 4, 2
RAGGED = PRODUCTS["tpu"]
ROWS = ("data", "fsdp", "expert")
WITHIN = P(("data", "fsdp"), None, "expert", "model")
WHOLE = P(ROWS, None, None)
MESHES = {
    "rows": {"data": 2, "fsdp": 2},
    "experts": {"fsdp": 2, "expert": 2},
    "both": {"expert": 2, "model": 2},
}


def arrays(rows=B, count=E, bias=None):
    """The residual stream, shares of all experts, the kernels, and the weights of a loss."""
    kernels = [(count, D, F), (count, D, F), (count, F, D)]
    shapes = [(rows, S, D), (rows, S, count), *kernels, (rows, S, D)]
    rng = np.random.default_rng(0)
    h, scores, *kernels, weights = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in shapes)
    # The last expert is chosen by nobody, the first by most.
    if bias is not None:
        return h, jax.nn.softmax(scores + bias[None, None, :]), *kernels, weights
    return (
        h,
        jax.nn.softmax(scores + jnp.zeros(count).at[0].set(2.0).at[-1].set(-9)[None, None, :]),
        *kernels,
        weights,
    )


def loss(h, shares, gate, up, down, weights):
    chosen = jax.lax.top_k(shares, X)[1]
    return (experts(h, shares, chosen, gate, up, down) * weights).sum()


def expected(inputs):
    """The loss and its gradients, each expert a plain product, one after the other."""

    def formula(h, shares, gate, up, down, weights):
        least = jax.lax.top_k(shares, X)[0][..., -1:]
        shares = jnp.where(shares >= least, shares, 0)
        one = [(jax.nn.silu(h @ g) * (h @ u)) @ d for g, u, d in zip(gate, up, down, strict=True)]
        return (sum(y * shares[..., i, None] for i, y in enumerate(one)) * weights).sum()

    return jax.value_and_grad(formula, range(5))(*inputs)


def check(sizes, out=WHOLE, positions=None, **others):
    inputs = arrays(**others)
    mesh = make_mesh(dict.fromkeys((*ROWS, "model"), 1) | sizes)
    specs = {"h_BSD": WHOLE, "u_BSEF": WITHIN, "a_BSEF": WITHIN, "x_BSD": out}
    table = {name: P(spec[0], spec[1] or positions, *spec[2:]) for name, spec in specs.items()}
    with jax.set_mesh(mesh), layouts(table):
        found = jax.jit(jax.value_and_grad(loss, range(5)))(*inputs)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected(inputs)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", MESHES.values(), ids=MESHES)
def test_values_and_gradients(sizes, monkeypatch):
    monkeypatch.setitem(PRODUCTS, "cpu", RAGGED)
    check(sizes)


def test_groups_with_room_between(monkeypatch):
    monkeypatch.setitem(PRODUCTS, "cpu", Product(RAGGED.multiply, (4, 8)))
    check(MESHES["experts"])


@pytest.mark.parametrize(
    "sizes", [{"expert": 4}, {"fsdp": 2, "expert": 2}, MESHES["both"]], ids=str
)
@pytest.mark.parametrize("favourites", [(0, 1), (3,), (1, 2)], ids=str)
def test_no_token_is_left_out_where_all_choose_alike(sizes, favourites, monkeypatch):
    """A device whose experts they are has room for 1.25 of an even share, and computes the rest in further passes."""
    monkeypatch.setitem(PRODUCTS, "cpu", RAGGED)
    bias = jnp.full(E, -20.0).at[jnp.array(favourites)].set(0.0)
    check(sizes, bias=bias)


def test_experts_that_fsdp_does_not_divide(monkeypatch):
    """It splits the embed dim of their kernels then."""
    monkeypatch.setitem(PRODUCTS, "cpu", RAGGED)
    check({"fsdp": 4}, count=6)


def test_the_formula():
    check(MESHES["both"])


@pytest.mark.parametrize("product", [None, RAGGED], ids=["formula", "groups"])
@pytest.mark.parametrize("form", [INT8, NF4], ids=["int8", "nf4"])
def test_kernels_that_are_stored_in_few_bits(form, product, monkeypatch):
    """They are the matrices that they stand for, and what the rest has gradients of is the same."""
    monkeypatch.setitem(PRODUCTS, "cpu", product)
    h, shares, *kernels, weights = arrays()
    stored = [form.quantize(kernel, 4) for kernel in kernels]
    table = {"h_BSD": WHOLE, "u_BSEF": WITHIN, "a_BSEF": WITHIN, "x_BSD": WHOLE}
    value = jax.value_and_grad(loss, (0, 1))
    wanted = value(h, shares, *(restore(*one, jnp.float32) for one in stored), weights)
    with jax.set_mesh(make_mesh(dict.fromkeys(ROWS, 1) | MESHES["both"])), layouts(table):
        found = jax.jit(value)(h, shares, *stored, weights)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("product", [None, RAGGED], ids=["formula", "groups"])
@pytest.mark.parametrize("form, mesh", [(None, "experts"), (NF4, "both")], ids=["whole", "nf4"])
def test_kernels_with_an_adapter(form, mesh, product, monkeypatch):
    """They are the sum of base and adapter, of all tokens to the experts of one device too, and the base has no gradient."""
    monkeypatch.setitem(PRODUCTS, "cpu", product)
    h, shares, *kernels, weights = arrays(bias=jnp.full(E, -20.0).at[jnp.array([0, 1])].set(0.0))
    rng = np.random.default_rng(1)
    beside = [
        [jnp.asarray(rng.normal(0, 0.3, x), jnp.float32) for x in ((E, i, 3), (E, 3, o))]
        for _, i, o in (kernel.shape for kernel in kernels)
    ]
    stored = [form.quantize(kernel, 4) if form else (kernel,) for kernel in kernels]
    bases = [restore(*one, jnp.float32) if form else one[0] for one in stored]

    def of_adapters(h, shares, beside):
        adapted = (AdaptedKernel(base, *own) for base, own in zip(stored, beside, strict=True))
        return loss(h, shares, *adapted, weights)

    def of_sums(h, shares, beside):
        sums = (base + a @ b for base, (a, b) in zip(bases, beside, strict=True))
        return loss(h, shares, *sums, weights)

    table = {"h_BSD": WHOLE, "u_BSEF": WITHIN, "a_BSEF": WITHIN, "x_BSD": WHOLE}
    wanted = jax.value_and_grad(of_sums, (0, 1, 2))(h, shares, beside)
    sizes = dict.fromkeys((*ROWS, "model"), 1) | MESHES[mesh]
    with jax.set_mesh(make_mesh(sizes)), layouts(table):
        found = jax.jit(jax.value_and_grad(of_adapters, (0, 1, 2)))(h, shares, beside)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("product", [None, RAGGED], ids=["formula", "groups"])
def test_tokens_in_a_row_with_the_shares_of_what_they_chose(product, monkeypatch):
    """As classes of PyTorch call them, which name no activation."""
    monkeypatch.setitem(PRODUCTS, "cpu", product)
    inputs = arrays()

    def of_rows(h, shares, gate, up, down, weights):
        share_TX, expert_TX = jax.lax.top_k(shares.reshape(-1, E), X)
        x_TD = chosen_experts(h.reshape(-1, D), expert_TX, share_TX, gate, up, down)
        return (x_TD.reshape(h.shape) * weights).sum()

    with jax.set_mesh(make_mesh(dict.fromkeys((*ROWS, "model"), 1) | MESHES["experts"])):
        found = jax.jit(jax.value_and_grad(of_rows, range(5)))(*inputs)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected(inputs)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_split_sequence_and_a_row_that_no_axis_divides(monkeypatch):
    monkeypatch.setitem(PRODUCTS, "cpu", RAGGED)
    check({"expert": 2, "model": 2}, out=P(ROWS, "model", None))
    check({"fsdp": 2, "expert": 2}, rows=1)


@pytest.mark.parametrize("sizes", [{"fsdp": 2}, {"expert": 2}, {"model": 2}], ids=str)
def test_positions_that_devices_split(sizes, monkeypatch):
    monkeypatch.setitem(PRODUCTS, "cpu", RAGGED)
    check(sizes | {"context": 2}, positions="context")


MIXED = {
    "x": P(None, None),
    "gate": P("expert", "fsdp", "model"),
    "up": P("expert", "fsdp", "model"),
}
MIXED |= {"router": P("fsdp", None), "down": P("expert", "model", "fsdp")}


def mixed(model, batch, key):
    """Losses of tokens, whose experts a router chooses, behind a layer that all devices have whole."""
    h = jnp.tanh(batch["h"] @ model.params["x"])
    shares = jax.nn.softmax(h @ model.params["router"])
    chosen = jax.lax.top_k(shares, X)[1]
    dtype = batch["h"].dtype
    kernels = (model.params[name].astype(dtype) for name in ("gate", "up", "down"))
    x = experts(h.astype(dtype), shares.astype(dtype), chosen, *kernels)
    return ((x * batch["weights"]).sum(-1), jnp.ones(x.shape[:2])), {}


FORMS = {
    "formula": (None, "float32", 1e-5),
    "rounded": (None, "bfloat16", 0.1),
    "groups": (RAGGED, "float32", 1e-5),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [{"data": 2, "expert": 2}, *MESHES.values()], ids=str)
def test_micro_batches_on_devices_with_rows_and_experts_of_their_own(sizes, form, monkeypatch):
    product, dtype, error = FORMS[form]
    h, _, gate, up, down, weights = arrays(8)
    x, router = jax.random.normal(jax.random.key(1), (D, D)), weights[0, :E].T
    params = {"x": x, "router": router, "gate": gate, "up": up, "down": down}
    model, batch = ModelState(params, {}), {"h": h.astype(dtype), "weights": weights}
    step = functools.partial(
        mean_and_gradients, mixed, once=OnceAStep(ROWS, specs=ModelState(MIXED, {}))
    )
    wanted = mean_and_gradients(mixed, model, batch, jax.random.key(0), micro_batches=1)

    monkeypatch.setitem(PRODUCTS, "cpu", product)
    table = {"h_BSD": WHOLE, "u_BSEF": WITHIN, "a_BSEF": WITHIN, "x_BSD": WHOLE}
    with jax.set_mesh(make_mesh(dict.fromkeys((*ROWS, "model"), 1) | sizes)), layouts(table):
        placed = ModelState(
            {name: jax.device_put(params[name], MIXED[name]) for name in params}, {}
        )
        run = jax.jit(functools.partial(step, micro_batches=2))
        found = run(placed, jax.device_put(batch, P(ROWS)), jax.random.key(0))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=error)


def test_flops_are_those_of_the_experts_of_a_token():
    table = {"h_BSD": P("data", None, None), "u_BSEF": P("data", None, None, None)}
    with jax.set_mesh(make_mesh({"data": 4})), layouts(table):
        abstract = jax.sharding.get_abstract_mesh().update(abstract_device=None)
        with jax.sharding.use_abstract_mesh(abstract):
            traced = jax.make_jaxpr(loss)(*arrays())
    assert count_flops(traced.jaxpr) == 2 * B * S * X * 3 * D * F


@pytest.mark.parametrize(
    ("platform", "rows", "count"),
    [
        ("gpu", 8192, 8),
        ("gpu", 32768, 128),
        ("gpu", 8192, 128),
        ("tpu", 8192, 8),
        ("tpu", 65536, 128),
    ],
)
def test_blocks_of_rows_are_few_more_than_the_rows(platform, rows, count):
    """Those of a device with 4096 tokens of Mixtral, and with 1024 to 8192 of Qwen3-MoE, by chance."""
    block = block_rows(PRODUCTS[platform].blocks, rows // count)
    sizes = np.random.default_rng(0).multinomial(rows, np.ones(count) / count, size=100)
    room = (-(-sizes // block) * block).sum(axis=1)
    assert block in (16, 64, 128) and room.mean() < 1.15 * rows and room.max() < 1.25 * rows


@pytest.mark.parametrize("dims", [(16, 32), (24, 8)], ids=str)
def test_tiles_of_groups(dims):
    rows = jnp.array([32, 0, 48], jnp.int32)
    rng = np.random.default_rng(0)
    x, kernels = rng.normal(size=(128, dims[0])), rng.normal(size=(3, *dims))
    weights = rng.normal(size=(128, dims[1])) * (np.arange(128) < 80)[:, None]
    products = (
        lambda x, w: multiply_groups(x, w, rows, 16, interpret=True),
        lambda x, w: jax.lax.ragged_dot(x, w, rows),
    )
    found, wanted = (
        jax.value_and_grad(lambda x, w, f=f: (f(x, w) * weights).sum(), (0, 1))(
            jnp.asarray(x, jnp.float32), jnp.asarray(kernels, jnp.float32)
        )
        for f in products
    )
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def routed(model, batch, key):
    """Losses of tokens, and the loss of the routers of two layers."""
    odds = [jax.nn.softmax(batch["x"] @ w) for w in model.params["router"]]
    load = [expert_load(o, jax.lax.top_k(o, X)[1], batch["mask"]) for o in odds]
    losses = (batch["x"] @ model.params["router"][0]).sum(-1) ** 2
    terms = {"router_loss": (router_loss(jnp.stack(load), batch["mask"]), 0.5)}
    return (losses, batch["mask"].astype(jnp.float32), terms), {}


def routed_problem():
    rng = np.random.default_rng(1)
    x, router = rng.normal(size=(8, S, D)), rng.normal(size=(2, D, E))
    mask = np.arange(S) < np.array([6, 1, 2, 5, 4, 3, 0, 6])[:, None]
    batch = {"x": jnp.asarray(x, jnp.float32), "mask": jnp.asarray(mask)}
    return ModelState({"router": jnp.asarray(router, jnp.float32)}, {}), batch


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_the_routers_loss_is_that_of_all_devices(micro_batches):
    """Where each adds up the gradients of its own rows, too."""
    model, batch = routed_problem()
    step = functools.partial(
        mean_and_gradients,
        routed,
        micro_batches=micro_batches,
        once=OnceAStep(("data", "fsdp")),
    )
    found = []
    for devices in (1, 4):
        mesh = make_mesh({"data": devices, "fsdp": 1}, jax.devices()[:devices])
        with jax.set_mesh(mesh):
            split = jax.device_put(batch, jax.NamedSharding(mesh, P("data")))
            found.append(jax.jit(step)(model, split, jax.random.key(0)))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    jax.tree.map(close, *map(jax.device_get, found))
    assert X < found[0][0]["router_loss"] < E
