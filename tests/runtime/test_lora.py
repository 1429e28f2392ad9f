"""An adapter beside the layers of a model: what PEFT computes, in training too, and with a random stream a layer."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file
from redco_runtime.nn.adapters import layers
from redco_runtime.nn.adapters.expert_kernels import with_expert_lora
from redco_runtime.nn.adapters.blocks import INT8
from redco_runtime.nn.adapters.layers import with_lora
from redco_runtime.checkpoints.lora import lora
from redco_runtime.checkpoints.lora.lora import Lora
from redco_runtime.checkpoints.lora.qlora import QLora
from redco_runtime.base.messages import UserError
from redco_runtime.nn.dropout import drop_by_example, with_keys
from redco_runtime.base.state import flatten
from redco_runtime.base.tensors import Tensor

L, B, S, D, F = 3, 2, 4, 8, 5
X = np.random.default_rng(0).normal(size=(B, S, D)).astype(np.float32)
MASK = np.random.default_rng(1).integers(0, 2, (B, S, D)).astype(np.float32) * 2


class Layer(nnx.Module):
    def __init__(self, rngs):
        self.q = nnx.Linear(D, F, rngs=rngs)
        self.router = nnx.Linear(D, F, use_bias=False, rngs=rngs)
        self.gate = Kernels(rngs)


class Kernels(nnx.Module):
    def __init__(self, rngs):
        self.kernel = nnx.Param(jax.random.normal(rngs.params(), (2, D, F)))

    def __call__(self):
        return self.kernel[...]


class Model(nnx.Module):
    def __init__(self, dtype="float32"):
        rngs = nnx.Rngs(0)
        self.config = SimpleNamespace(dtype=dtype)
        self.embed, self.positions = nnx.Embed(6, D, rngs=rngs), nnx.Embed(6, D, rngs=rngs)
        self.layers = nnx.split_rngs(splits=L)(nnx.vmap(Layer))(rngs)
        self.head = nnx.Linear(D, F, rngs=rngs)


def arrays(model):
    state = flatten(nnx.to_pure_dict(nnx.state(model, nnx.Param)))
    return {path: (x.shape, str(x.dtype)) for path, x in state.items()}


def test_what_an_adapter_makes_of_a_model():
    lora = QLora(lora_rank=2, lora_block=4)
    options = {"base": "nf4", "dora": True, "trained": ("head",), "rngs": nnx.Rngs(1)}
    shapes = arrays(with_lora(Model("bfloat16"), lora, ("q",), **options))
    assert shapes == {
        "embed/embedding": ((6, D), "bfloat16"),
        "positions/embedding": ((6, D), "float32"),
        "head/kernel": ((D, F), "float32"),
        "head/bias": ((F,), "float32"),
        "layers/router/kernel": ((L, D, F), "bfloat16"),
        "layers/gate/codes": ((L, 2, 2, 2, F), "uint8"),
        "layers/gate/scales": ((L, 2, 2, 1, F), "bfloat16"),
        "layers/q/codes": ((L, 2, 2, F), "uint8"),
        "layers/q/scales": ((L, 2, 1, F), "bfloat16"),
        "layers/q/bias": ((L, F), "bfloat16"),
        "layers/q/lora_a": ((L, D, 2), "float32"),
        "layers/q/lora_b": ((L, 2, F), "float32"),
        "layers/q/lora_m": ((L, F), "float32"),
    }


def test_a_layer_that_the_model_has_not_is_named():
    class Own(nnx.Linear):
        """What only its class knows how to compute."""

    model, other = Model(), Model()
    model.head = other.head = Own(D, F, rngs=nnx.Rngs(0))
    with pytest.raises(UserError, match="no nnx.Linear that is called head, v: "):
        with_lora(other, Lora(), ("q", "v", "head"), rngs=nnx.Rngs(1))
    assert type(with_lora(model, Lora(), ("q",), rngs=nnx.Rngs(1)).head) is Own


def test_what_peft_has_not_for_experts_and_kernels_that_the_model_has_not_are_named():
    model, settings = Model(), {"--lora-dropout 0": Lora(lora_dropout=0.5)}
    settings["--use-rslora false"] = Lora(use_rslora=True)
    for todo, own in settings.items():
        with pytest.raises(UserError, match=f"for kernels of experts: give {todo}"):
            with_expert_lora(model, own, ("gate",), rngs=nnx.Rngs(1))
    with pytest.raises(UserError, match="no kernels of experts that are called up: "):
        with_expert_lora(model, Lora(), ("gate", "up"), rngs=nnx.Rngs(1))


class Masked(layers.Dropout):
    """One whose features that are left are known."""

    def __call__(self, x):
        return x if self.deterministic else x * MASK


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("dora", [False, True])
def test_outputs_and_gradients_in_training_are_those_of_peft(dora, dropout, monkeypatch):
    import torch
    from peft import LoraConfig, get_peft_model

    monkeypatch.setattr(layers, "Dropout", Masked)
    lora = Lora(lora_rank=2, lora_alpha=3.0, lora_dropout=dropout, use_rslora=True)
    own = nnx.Dict(q=nnx.Linear(D, F, rngs=nnx.Rngs(0)), config=SimpleNamespace(dtype="float32"))
    own = with_lora(own, lora, ("q",), dora=dora, rngs=nnx.Rngs(1))
    layer = own["q"]
    layer.lora_b[...] = jax.random.normal(jax.random.key(2), (2, F))

    base = torch.nn.Sequential(torch.nn.Linear(D, F))
    config = LoraConfig(
        r=2,
        lora_alpha=3,
        lora_dropout=dropout,
        use_rslora=True,
        use_dora=dora,
        target_modules=["0"],
    )
    base[0].weight.data = torch.tensor(np.array(layer.kernel[...].T))
    base[0].bias.data = torch.tensor(np.array(layer.bias[...]))
    theirs = get_peft_model(base, config).base_model.model[0].train()
    a, b = theirs.lora_A["default"].weight, theirs.lora_B["default"].weight
    a.data, b.data = (torch.tensor(np.array(x[...].T)) for x in (layer.lora_a, layer.lora_b))
    if dropout:
        theirs.lora_dropout["default"] = Times()
    if dora:
        m = theirs.lora_magnitude_vector["default"].weight
        change = np.linspace(-0.3, 0.3, F, dtype=np.float32)
        m.data, layer.lora_m[...] = m.data + torch.tensor(change), jnp.asarray(change)
    expected = theirs(torch.tensor(X))
    (expected**2).sum().backward()
    np.testing.assert_allclose(layer(X), expected.detach().numpy(), rtol=1e-5, atol=1e-5)

    graph, adapter, rest = nnx.split(layer, nnx.LoRAParam, ...)
    grads = jax.grad(lambda one: jnp.sum(nnx.merge(graph, one, rest)(X) ** 2))(adapter)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(grads["lora_a"][...].T, a.grad.numpy(), **close)
    np.testing.assert_allclose(grads["lora_b"][...].T, b.grad.numpy(), **close)
    if dora:
        np.testing.assert_allclose(grads["lora_m"][...], m.grad.numpy(), **close)


class Times:
    """The same for PyTorch."""

    def __new__(cls):
        import torch

        class Module(torch.nn.Module):
            def forward(self, x):
                return x * torch.tensor(MASK)

        return Module()


def drops(model, rows=B):
    """The features that each layer of a stack drops."""

    @nnx.scan(in_axes=(0, None), out_axes=0, graph_updates=False)
    def run(layer, x):
        return layer.q.dropout(x) if layer.q.dropout else x

    return np.asarray(run(model.layers, jnp.ones((rows, S, D)))) == 0


def test_each_layer_drops_features_of_its_own_by_example_in_training_alone():
    lora = Lora(lora_dropout=0.5)
    model, part = (with_lora(Model(), lora, ("q",), rngs=nnx.Rngs(1)) for _ in range(2))
    model.train(), part.train()
    drop_by_example(model, X, jax.random.key(3))
    dropped = drops(model)
    keyed = jax.tree.map(lambda x: x[1:], with_keys(X, jax.random.key(3)))
    drop_by_example(part, keyed, jax.random.key(4))
    np.testing.assert_array_equal(drops(part, B - 1), dropped[:, 1:])  # as in the whole batch
    assert 0.3 < dropped.mean() < 0.7 and len({one.tobytes() for one in dropped}) == L
    model.eval()
    assert not drops(model).any()
    none = with_lora(Model(), Lora(), ("q",), rngs=nnx.Rngs(1))
    assert not nnx.state(none, nnx.RngState) and not drops(none).any()


def test_a_merged_adapter_is_in_the_kernels_of_its_layers_and_nowhere_else():
    """`up` has matrices, `down` blocks and no adapter: after it both have matrices, and what else there is stays."""
    rng = np.random.default_rng(0)
    kernel, down, a, b = (
        jnp.asarray(rng.normal(size=shape), jnp.float32)
        for shape in ((D, F), (F, D), (D, 2), (2, F))
    )
    codes, scales = INT8.quantize(down, F)
    table, bias = jnp.ones((6, D)), jnp.ones(F)
    own = {"embed/embedding": table, "up/kernel": kernel, "up/bias": bias}
    adapter = {"up/lora_a": a, "up/lora_b": b, "down/codes": codes, "down/scales": scales}
    merged = Lora(lora_rank=2, lora_alpha=6.0).merge(own | adapter)
    assert merged.keys() == {*own, "down/kernel"}
    assert merged["embed/embedding"] is table and merged["up/bias"] is bias
    np.testing.assert_allclose(merged["up/kernel"], kernel + 3 * a @ b, rtol=1e-5)
    np.testing.assert_allclose(merged["down/kernel"], down, atol=float(scales.max()))


def test_the_base_of_an_adapter_is_a_folder_or_an_id(tmp_path, monkeypatch):
    """An id of the hub stays, a folder is its whole path, and none is none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama").mkdir()
    for base, said in (("org/name", "org/name"), ("llama", str(tmp_path / "llama")), ("", "")):
        folder = tmp_path / f"adapter-{len(said)}"
        Lora().export({}, folder, table={}, shapes={}, base=base)
        assert (
            json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]
            == said
        )


def test_what_is_trained_in_full_beside_it_is_written_by_its_layers(tmp_path):
    table = {"score/kernel": Tensor("score.weight", (1, 0)), "up/bias": Tensor("up.bias", (0,))}
    parameters = {"score/kernel": jnp.ones((3, 1)), "up/bias": jnp.ones(2)}
    shapes = jax.eval_shape(lambda: parameters)
    folder = tmp_path / "adapter"
    Lora().export(parameters, folder, table=table, shapes=shapes, saved=["score"])
    assert load_file(folder / "adapter_model.safetensors").keys() == {
        "base_model.model.score.weight"
    }
    assert json.loads((folder / "adapter_config.json").read_text())["modules_to_save"] == ["score"]


def test_a_module_that_ends_as_one_that_is_not_chosen_is_told_by_a_pattern():
    assert lora._targets(["query"], ["attention.output.dense"]) == ["query"]
    assert isinstance(lora._targets(["dense"], ["output.dense"]), str)
