"""A run that trained an adapter, as the start of a model without one."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.nn.adapters.blocks import INT8, NF4
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.messages import UserError
from redco_runtime.checkpoints.load import adopt, is_part
from redco_runtime.checkpoints.lora.lora import Lora
from redco_runtime.checkpoints.lora.peft import base_of_run
from redco_runtime.nn.matrices import restore
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.base.state import ModelState, flatten, new_state

CONFIG = SimpleNamespace(train=SimpleNamespace(seed=0))
L, IN, OUT, RANK, ALPHA = 2, 8, 3, 2, 5.0


def draw(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), jnp.float32)


ADAPTER = {"lora_a": draw(L, IN, RANK), "lora_b": draw(L, RANK, OUT)}
KERNEL = draw(L, IN, OUT)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("q/lora_a", True),
        ("q/kernel", False),  # it is in both
        ("q/bias", False),  # no part of a matrix
        ("other/lora_a", False),  # of no matrix
        ("a/lora_a", False),  # of an adapter in both
        ("a/lora_m", False),  # of another adapter
        ("q/lora_m", True),
    ],
)
def test_what_is_a_part_of_a_matrix_that_is_whole(path, expected):
    like = ["q/kernel", "q/scale", "a/kernel", "a/lora_a", "a/lora_b"]
    assert is_part(path, like) is expected


def save(folder, frozen, adapter=True, init=None):
    """A run whose layer q is frozen, and stored so."""
    model = ModelState({"q": ADAPTER if adapter else {}, "ln": jnp.ones(4)}, {}, {"q": frozen})
    state = jax.device_put(new_state(model, optax.identity()), jax.devices()[0])
    with Checkpoints(
        folder / "checkpoints", shapes=jax.eval_shape(lambda: model).parameters
    ) as one:
        one.save(1, state)
    (folder / "run.json").write_text(
        json.dumps(
            {
                "config": {"model": {"lora_alpha": ALPHA}},
                "mesh": {},
                "virtual_devices": None,
                "init": init,
            }
        )
    )


def steps(spec, model, padded=0):
    """Those of a model whose kernel of q lies so, with more columns than it needs."""
    place = NamedSharding(jax.sharding.get_mesh(), spec)

    def init(key):
        return new_state(model(padded), optax.identity())

    abstract = jax.eval_shape(init, 0)
    places = jax.tree.map(
        lambda x: place if x.ndim == 3 else NamedSharding(place.mesh, P()), abstract
    )
    return SimpleNamespace(
        state=jax.tree.map(lambda leaf, at: leaf.update(sharding=at), abstract, places),
        shapes=flatten(jax.eval_shape(lambda: model(0).params)),
        init=jax.jit(init, out_shardings=places),
        start=jax.jit(lambda model: new_state(model, optax.identity()), out_shardings=places),
    )


def whole(padded):
    return ModelState({"q": {"kernel": jnp.zeros((L, IN, OUT + padded))}, "ln": jnp.zeros(4)}, {})


def stored(form):
    codes, scales = form.quantize(KERNEL, 4)
    return {"codes": codes, "scales": scales}, restore(codes, scales, jnp.float32)


STORED = {
    "float32": ({"kernel": KERNEL}, KERNEL),
    "int8": stored(INT8),
    "nf4": stored(NF4),
}


@pytest.mark.parametrize("spec, padded", [(P(None, "model", None), 0), (P(None, None, "model"), 1)])
@pytest.mark.parametrize("base", STORED)
def test_a_matrix_is_what_it_was_and_what_its_adapter_added(base, spec, padded, tmp_path, capsys):
    frozen, kernel = STORED[base]
    save(tmp_path, frozen)
    with jax.set_mesh(make_mesh({"model": 4})):
        made = steps(spec, whole, padded)
        state, random, unused = adopt(tmp_path / "checkpoints", made, CONFIG)
        assert state.params["q"]["kernel"].sharding == made.state.params["q"]["kernel"].sharding
    assert (random, unused) == ([], []) and state.params["ln"].tolist() == [1] * 4
    found = np.asarray(state.params["q"]["kernel"])
    added = ALPHA / RANK * (ADAPTER["lora_a"] @ ADAPTER["lora_b"])
    np.testing.assert_allclose(found[..., :OUT], kernel + added, rtol=1e-5, atol=1e-6)
    assert not found[..., OUT:].any()
    assert "the adapter of " in capsys.readouterr().out


def test_what_dora_made_of_columns_is_in_the_matrix(tmp_path, monkeypatch):
    change = draw(L, OUT)
    monkeypatch.setitem(ADAPTER, "lora_m", change)
    frozen, kernel = STORED["float32"]
    save(tmp_path, frozen)
    run = json.loads((tmp_path / "run.json").read_text())
    run["config"] = {"model": {}, "lora": {"lora_alpha": ALPHA, "use_rslora": True}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    with jax.set_mesh(make_mesh({"model": 4})):
        state, random, unused = adopt(
            tmp_path / "checkpoints", steps(P(None, "model", None), whole, 1), CONFIG
        )
    assert (random, unused) == ([], [])
    added = kernel + ALPHA / RANK**0.5 * (ADAPTER["lora_a"] @ ADAPTER["lora_b"])
    before, after = (np.linalg.norm(x, axis=1, keepdims=True) for x in (kernel, added))
    found = np.asarray(state.params["q"]["kernel"])
    np.testing.assert_allclose(
        found[..., :OUT], added * (before + change[:, None, :]) / after, rtol=1e-5, atol=1e-6
    )
    assert not found[..., OUT:].any()


def adapted(_):
    """A model with an adapter of zeros."""
    zeros = jax.tree.map(jnp.zeros_like, ADAPTER)
    return ModelState({"q": zeros, "ln": jnp.zeros(4)}, {}, {"q": {"kernel": KERNEL * 0}})


def start(folder, lora, model=adapted):
    """What adopt gives a model with that adapter, of the run in a folder."""
    config = SimpleNamespace(lora=lora, **vars(CONFIG))
    with jax.set_mesh(make_mesh({"model": 4})):
        return adopt(folder / "checkpoints", steps(P(None, None, None), model), config)


def test_an_adapter_stays_one_on_a_base_that_is_stored_otherwise(tmp_path):
    frozen, kernel = STORED["nf4"]
    save(tmp_path, frozen)
    state, random, unused = start(tmp_path, Lora(lora_rank=RANK, lora_alpha=ALPHA))
    assert (random, unused) == ([], [])
    np.testing.assert_allclose(state.frozen["q"]["kernel"], kernel, rtol=1e-6)
    np.testing.assert_array_equal(state.params["q"]["lora_a"], ADAPTER["lora_a"])


@pytest.mark.parametrize(
    "other, what",
    [
        (
            {"lora_alpha": 8.0},
            "alpha 5 / the rank .* 2.5, .* give --lora-alpha 5 --use-rslora false",
        ),
        ({"use_rslora": True}, "and the model's 3.53553 times: give --lora-alpha 5"),
        ({"lora_rank": 3}, "is an adapter of rank 2, and the model's is 3: give --lora-rank 2"),
    ],
)
def test_an_adapter_of_other_settings_is_refused(other, what, tmp_path):
    save(tmp_path, STORED["float32"][0])
    with pytest.raises(UserError, match=what):
        start(tmp_path, Lora(**{"lora_rank": RANK, "lora_alpha": ALPHA} | other))


def test_an_adapter_of_dora_or_of_more_layers_is_refused(tmp_path, monkeypatch):
    save(tmp_path / "plain", STORED["float32"][0])
    monkeypatch.setitem(ADAPTER, "lora_m", draw(L, OUT))
    lora = Lora(lora_rank=RANK, lora_alpha=ALPHA)
    with pytest.raises(UserError, match="is none of DoRA"):
        start(tmp_path / "plain", lora)
    monkeypatch.setattr("redco_runtime.base.messages.if_asked_for", lambda module: None)
    with pytest.raises(UserError, match="has an adapter on q, where this model has none: .* adap"):
        start(tmp_path / "plain", lora, lambda _: whole(0))


def test_an_adapter_is_of_what_its_first_run_started_from(tmp_path, capsys):
    frozen, paths = STORED["float32"][0], ["q/lora_a", "q/lora_b", "q/kernel"]
    save(tmp_path / "first", frozen, init="org/name")
    save(tmp_path / "second", frozen, init=str(tmp_path / "first"))
    assert base_of_run(str(tmp_path / "second"), paths) == "org/name"
    assert base_of_run("org/name", paths) == "org/name" and base_of_run(None, paths) == ""
    assert capsys.readouterr().out == ""
    assert base_of_run(str(tmp_path / "second"), ["v/lora_a"]) == ""
    assert capsys.readouterr().out.endswith("give --merge for the whole model\n")
    save(tmp_path / "full", frozen, adapter=False)
    assert base_of_run(str(tmp_path / "full"), paths) == ""
    assert f"or export {tmp_path / 'full'} first and write" in capsys.readouterr().out


def test_an_adapter_whose_alpha_nothing_says_is_refused(tmp_path):
    save(tmp_path, STORED["nf4"][0])
    (tmp_path / "run.json").unlink()
    with jax.set_mesh(make_mesh({"model": 4})), pytest.raises(UserError, match="has its alpha"):
        adopt(tmp_path / "checkpoints", steps(P(None, "model", None), whole), CONFIG)
