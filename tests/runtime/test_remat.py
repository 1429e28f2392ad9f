"""What the forward pass saves: by name, by memory, and by what it spares."""

import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P

from redco_runtime.nn import losses
from redco_runtime.step import memory_estimate, remat
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.layout.activations import lay_out, layouts
from redco_runtime.base.messages import UserError, announce
from redco_runtime.nn.losses import cross_entropy
from redco_runtime.step.memory_estimate import Saving, measure, stacks_around
from redco_runtime.step.remat import choose, fit, state_size, writes_out
from redco_runtime.nn.layers import CHOICE, LOGITS, Choice, saved
from redco_runtime.base.state import ModelState, TrainState

L, B, D, F = 3, 8, 4, 16
PARAMS = {"up": (L, D, F), "down": (L, F, D), "scale": (L, D)}
MODEL = ModelState({k: jax.ShapeDtypeStruct(s, jnp.float32) for k, s in PARAMS.items()}, {})
BATCH = {"x": jax.ShapeDtypeStruct((B, D), jnp.float32)}
KEY = jax.eval_shape(jax.random.key, 0)
TABLE = {
    "h": P("data", None),
    "u": P("data", "model"),
    "a": P("data", "model"),
    "y": P("data", None),
    "x": P("data", None),
}


def make_loss(setting, table=None):
    """A loss of L layers: h = x * scale, u = h up, a = tanh(u), y = a down, x + y."""

    def layer(x, p):
        h = lay_out(x * p["scale"][None], "h")
        a = lay_out(jnp.tanh(lay_out(h @ p["up"], "u")), "a")
        return lay_out(x + jnp.sin(lay_out(a @ p["down"], "y")), "x"), None

    def loss(model, batch, key):
        with layouts(table) if table else layouts(dict.fromkeys(TABLE, P(None, None))):
            body = jax.checkpoint(layer, policy=saved(setting), prevent_cse=False)
            return jnp.sum(jax.lax.scan(body, batch["x"], model.params)[0]), {}

    return loss


def products(loss):
    """How many products the gradients take."""

    def value(params, batch, key):
        return loss(ModelState(params, {}), batch, key)[0]

    return str(jax.make_jaxpr(jax.grad(value))(MODEL.params, BATCH, KEY)).count("dot_general")


def fitted(setting, micro_batches=1):
    """The loss as memory, or a name, has it; of a device that has no state."""
    return fit(make_loss(setting), MODEL, BATCH, micro_batches, setting, remat.room(0), rows=1)


def test_what_is_needed_is_measured_with_its_flops_on_a_device(mesh):
    with jax.set_mesh(mesh):
        needs = measure(make_loss("fit", TABLE), MODEL, BATCH, KEY, rows=2)
    flops = L * 2 * B * D * F // 4
    sizes = {
        "u": L * B * F * 4 // 4,
        "y": L * B * D * 4 // 2,
    }  # a device has a part of u, all of its rows' y
    # h and a cost no product; the output of a layer is the next one's input, saved in any case.
    assert needs.savings == (Saving("y", sizes["y"], flops), Saving("u", sizes["u"], flops))
    assert needs.size > L * B * D * 4 // 2


def test_what_layers_hand_on_counts_by_its_layout(mesh):
    with jax.set_mesh(mesh):
        whole, split = (
            measure(make_loss("fit", TABLE | {"x": P("data", place)}), MODEL, BATCH, KEY, rows=2)
            for place in (None, "model")
        )
    # Of each layer what it takes over is saved; a layer and its gradients are worked with at once.
    assert whole.savings == split.savings
    assert whole.size - split.size == (L + 2) * B * D * 4 // 4


def test_logits_in_chunks_can_be_saved_whole(mesh, monkeypatch):
    """They and their gradients take memory at once, and spare a product; other names are of layers."""
    monkeypatch.setattr(losses, "CHUNK_BYTES", B * F)  # of the four devices, a position

    def loss(model, batch, key):
        head = model.params["up"][0].astype(jnp.bfloat16)
        x_BSD = batch["x"][:, None, :].repeat(2, 1).astype(jnp.bfloat16)
        labels_BS = jnp.zeros(x_BSD.shape[:2], jnp.int32)
        return cross_entropy(lambda x: x @ head, x_BSD, labels_BS).sum(), {}

    with jax.set_mesh(mesh), layouts({"x_BSD": P("data", None, None)}):
        (saving,) = measure(loss, MODEL, BATCH, KEY, rows=2).savings
    logits = B * 2 * F // 4
    assert saving == Saving(LOGITS, 2 * 2 * logits, 2 * D * logits)
    every = (saving, Saving("u", 1, 1))
    assert writes_out(every, ("u",), shared=1) and not writes_out(every, (LOGITS,), shared=1)
    assert not writes_out(every, ("u",), shared=remat.SHARED)


def test_those_are_saved_that_fit_the_dearest_first():
    savings = tuple(Saving(name, size, 1) for name, size in (("a", 5), ("b", 9), ("c", 4)))
    assert choose(savings, 100) == ("a", "b", "c")
    assert choose(savings, 9) == ("a", "c")
    assert choose(savings, -1) == ()


@pytest.mark.parametrize(
    ("machine", "written_out"), [("gpu", True), ("tpu", False), ("cpu", False)]
)
def test_layers_are_written_out_on_gpus_alone(mesh, monkeypatch, machine, written_out):
    monkeypatch.setattr(remat, "platform", lambda: machine)
    monkeypatch.setattr(remat, "writes_out", lambda *_: True)
    traced = []
    inner = make_loss("fit")

    def loss(*args):
        traced.append(CHOICE.get())
        return inner(*args)

    with jax.set_mesh(mesh):
        fitted_loss = fit(loss, MODEL, BATCH, 1, "u", 0, rows=4)
        jax.eval_shape(fitted_loss, MODEL, BATCH, KEY)
    assert traced[-1] == Choice(("u",), written_out)


@pytest.mark.parametrize(("memory", "computed"), [(10**9, 6), (0, 8)], ids=["all of it", "nothing"])
def test_memory_decides_what_is_computed_again(mesh, monkeypatch, capsys, memory, computed):
    monkeypatch.setattr(remat, "device_memory", lambda: memory)
    announce.cache_clear()
    with jax.set_mesh(mesh):
        assert products(fitted("fit")) == computed
    names = "y, u" if memory else "nothing; computed again: y, u"
    assert capsys.readouterr().out == f"remat: 0.0 GB saved: {names}\n"


def test_what_is_saved_is_said_with_its_size(capsys):
    savings = tuple(Saving(name, size, 1) for name, size in (("a", 3 * 10**9), ("b", 10**9)))
    announce.cache_clear()
    remat._say(savings, ("a",))
    assert capsys.readouterr().out == "remat: 3.0 GB saved: a; computed again: b\n"


def test_a_micro_batch_has_room_where_a_batch_has_none(mesh, monkeypatch):
    with jax.set_mesh(mesh):
        needs = measure(make_loss("fit"), MODEL, BATCH, KEY, rows=1)
        whole = needs.size + sum(one.size for one in needs.savings)
        monkeypatch.setattr(remat, "room", lambda used: whole // 2)
        assert products(fitted("fit")) > products(fitted("fit", micro_batches=4)) == 6


def test_names_say_what_is_saved_and_policies_do_too(mesh):
    with jax.set_mesh(mesh):
        assert products(fitted("u")) == 7
        for policy, computed in (("nothing_saveable", 8), ("everything_saveable", 6)):
            assert products(fitted(policy)) == computed


def test_a_name_that_saves_nothing_is_refused(mesh):
    with (
        jax.set_mesh(mesh),
        pytest.raises(UserError, match="--remat: 'v' is no array .* some of y,u"),
    ):
        fitted("u,v")


def test_the_choice_is_of_its_loss_alone(mesh, monkeypatch):
    monkeypatch.setattr(remat, "device_memory", lambda: 10**9)
    with jax.set_mesh(mesh):
        products(fitted("fit"))
        assert products(make_loss("fit")) == 8


def test_a_device_that_does_not_say_has_the_memory_of_the_smallest(mesh):
    with jax.set_mesh(mesh):
        assert remat.device_memory() == remat.UNKNOWN


def test_a_state_and_its_gradients_count_by_their_parts(mesh):
    place = jax.sharding.NamedSharding(mesh, P("model"))
    leaf = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=place)
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=jax.sharding.NamedSharding(mesh, P()))
    others = {"opt_state": {}, "variables": {}, "grad_norm": {}, "ema": {"w": leaf}, "frozen": {}}
    state = TrainState(step=step, params={"w": leaf}, **others)
    assert state_size(state, 1) == 4 + 16 + 16 + 16
    assert state_size(state, 4) == 4 + 16 + 16 + 2 * 16


@pytest.mark.parametrize(("rows", "vocab"), [(2, 100), (4, 7)])
def test_the_largest_array_beside_layers_is_that_of_each_token_of_each_row(rows, vocab):
    """Logits, (B, S, V): a table of as many words has two dims, and counts where it is stored."""
    x, w = jnp.zeros((rows, 8, 16)), jnp.zeros((16, vocab))
    jaxpr = jax.make_jaxpr(lambda x, w: (x @ (w * 2)).sum())(x, w).jaxpr
    assert memory_estimate._largest(jaxpr) == rows * 8 * vocab * 4


def test_what_loops_around_layers_leave_is_of_each_turn():
    def layers(x, kernels):
        return jax.lax.scan(lambda x, k: (checkpoint_name(x @ k, "u"), None), x, kernels)[0]

    def ticks(x, kernels):
        def tick(x, _):
            x = layers(x, kernels)
            return x, x

        return jax.lax.scan(tick, x, None, length=5)

    shapes = jax.ShapeDtypeStruct((B, D), jnp.float32), jax.ShapeDtypeStruct((L, D, D), jnp.float32)
    for function, turns in ((ticks, 5), (jax.jit(ticks), 5), (layers, 0)):
        assert stacks_around(jax.make_jaxpr(function)(*shapes).jaxpr) == turns * B * D * 4


@pytest.mark.parametrize(("devices", "rows"), [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)])
def test_arrays_without_a_layout_are_split_as_rows_are_and_kernels_by_the_others(devices, rows):
    """Of each layer what it takes over; twice what one leaves, and its kernels and the next one's."""

    def layer(x, p):
        return checkpoint_name(jnp.tanh(x @ p["up"]) @ p["down"], "y"), None

    def loss(model, batch, key):
        body = jax.checkpoint(layer, policy=saved("fit"), prevent_cse=False)
        return jnp.sum(jax.lax.scan(body, batch["x"], model.params)[0]), {}

    model = ModelState({name: MODEL.params[name] for name in ("up", "down")}, {})
    with jax.set_mesh(make_mesh({"data": devices}, jax.devices()[:devices])):
        size = measure(loss, model, BATCH, KEY, rows=rows).size
    x, kernels = B * D * 4, 2 * D * F * 4
    assert size == (L + 2) * x // rows + 2 * kernels // (devices // rows)
