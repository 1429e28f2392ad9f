"""Adapters: the model computes base and adapter; what is exported is the same to PEFT and transformers."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families.parity import TOLERANCE, emitted, linear, named
from families.reference import reference
from flax import nnx
from redco_runtime.nn.adapters.blocks import OF_CODES
from redco_runtime.checkpoints.lora import lora as lora_module, qlora
from redco_runtime.checkpoints.lora.expert_start import read_expert_adapter
from redco_runtime.checkpoints.lora.lora import changes_of_lengths
from redco_runtime.checkpoints.lora.peft import read_adapter
from redco_runtime.base.messages import UserError
from redco_runtime.base.state import flatten, rebuild
from redco_runtime.step.variables import streams

from redco_new.errors import RedcoError
from redco_new.models.adapter import choose_adapter, expert_kernels, linear_layers
from redco_new.models.families import FAMILIES
from redco_new.models.find import find_model
from redco_new.request.lora import Lora, check_lora

IDS = np.arange(3, 15, dtype=np.int32).reshape(2, 6)
MASK = np.array([[True] * 6, [True] * 4 + [False] * 2])
PIXELS = np.random.default_rng(0).normal(size=(2, 24, 24, 3)).astype(np.float32)
ENCODED = {"input_ids": IDS, "attention_mask": MASK}
SOURCE = ENCODED | {"decoder_input_ids": IDS}
# Family -> the arguments of the emitted model, and of PyTorch's; those of the others are tokens alone.
INPUTS = {
    "bert": ((IDS, MASK), ENCODED),
    **dict.fromkeys(("t5", "bart"), ((IDS, MASK, IDS), SOURCE)),
    "vit": ((PIXELS,), {"pixel_values": PIXELS.transpose(0, 3, 1, 2)}),
}


class Tuned:
    """A small model of a family with a random adapter, and the model without it.

    parameters: of both, by path. logits: what model.py computes with them.
    """

    def __init__(self, name, lora):
        self.pair = reference(name).pair(name)
        model, family = self.pair.model, FAMILIES[name]
        module, self.weights = emitted(model)
        self.config = getattr(module, family.config_class)(dtype="float32")
        build = getattr(module, family.model_class)
        tensors = named(model)
        experts = expert_kernels(tensors)
        adapter = choose_adapter(linear_layers(tensors), lora, name, experts=experts)
        module = qlora if lora.base else lora_module
        self.lora = getattr(module, adapter.class_name)(**adapter.settings)

        def make():
            return adapter.put(build(self.config, rngs=nnx.Rngs(0)), nnx.Rngs(0))

        abstract = nnx.eval_shape(make)
        graph, trained, random, rest = nnx.split(abstract, nnx.LoRAParam, nnx.RngState, ...)
        draw = np.random.default_rng(0)
        shapes = nnx.to_pure_dict(trained)
        adapter = jax.tree.map(
            lambda x: jnp.asarray(draw.normal(0, 0.2, x.shape), "float32"), shapes
        )
        self.base = flatten(jax.tree.map(jnp.asarray, self.pair.params))
        self.base |= self.in_blocks(flatten(nnx.to_pure_dict(rest)))
        self.parameters = self.base | flatten(adapter)
        base = rebuild(nnx.to_pure_dict(rest), self.base)
        self.inputs, self.theirs = INPUTS.get(name, ((IDS,), {"input_ids": IDS}))
        self.rest = base, streams(random, jax.random.key(0))
        self.graph, self.trained = graph, shapes
        self.logits = self.compute(flatten(adapter))

    def compute(self, adapter):
        """Logits of the model with an adapter, by path."""
        model = nnx.merge(self.graph, rebuild(self.trained, adapter), *self.rest)
        model.eval()
        return np.asarray(model(*self.inputs))

    def in_blocks(self, shapes):
        """Codes and scales of the matrices that model.py stores so, by path."""
        stored = {}
        for path in shapes:
            layer = path.removesuffix("/codes")
            if layer != path:
                form, kernel = OF_CODES[shapes[path].dtype.name], self.base.pop(layer + "/kernel")
                codes, scales = form.quantize(kernel, self.lora.lora_block)
                stored |= {layer + "/codes": codes, layer + "/scales": scales}
        assert stored.keys() | self.base.keys() == shapes.keys()
        return stored


OURS = ("q", "k", "v", "o", "gate", "up", "down")
LINEAR = {
    "llama": {name: f"{name}_proj" for name in OURS},
    "mixtral": {name: f"{name}_proj" for name in "qkvo"},  # no router, and no expert
    "phi-3": dict.fromkeys("qkv", "qkv_proj")
    | {"o": "o_proj", "gate": "gate_up_proj", "up": "gate_up_proj", "down": "down_proj"},
    "t5": {name: name for name in "qkvo"} | {"up": "wi", "down": "wo"},
    "vit": {"q": "query", "k": "key", "v": "value", "o": "dense", "up": "dense", "down": "dense"},
}


@pytest.mark.parametrize("name", LINEAR)
def test_layers_are_called_what_checkpoints_call_them(name):
    assert [*linear(find_model(name, "", 1)).items()] == [*LINEAR[name].items()]


SLOW = ("gpt2", "mixtral", "gemma3", "gpt-j", "opt", "bart")


@pytest.mark.parametrize(
    "name", ["llama", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_an_adapter_adds_what_its_merge_does(name):
    tuned = Tuned(name, Lora(rank=2, alpha=3.0))
    merged = tuned.lora.merge(tuned.parameters)
    assert merged.keys() == flatten(tuned.pair.params).keys()
    params = jax.tree.unflatten(
        jax.tree.structure(tuned.pair.params), [merged[k] for k in flatten(tuned.pair.params)]
    )
    whole = np.asarray(tuned.pair.merge(params)(*tuned.inputs))
    np.testing.assert_allclose(tuned.logits, whole, rtol=1e-4, atol=1e-4 * np.abs(whole).max())
    assert np.abs(whole - np.asarray(tuned.pair.ours(*tuned.inputs))).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, base",
    [("llama", "nf4"), ("t5", "int8"), ("bert", "nf4"), ("mixtral", "nf4"), ("qwen3-moe", "int8")],
)
def test_a_base_in_few_bits_is_the_model_of_its_matrices(name, base):
    tuned = Tuned(name, Lora(rank=2, alpha=3.0, base=base))
    merged = tuned.lora.merge(tuned.parameters)
    shapes = jax.eval_shape(tuned.lora.merge, tuned.parameters)
    assert {path: x.shape for path, x in shapes.items()} == {p: x.shape for p, x in merged.items()}
    whole = np.asarray(tuned.pair.merge(rebuild(tuned.pair.params, merged))(*tuned.inputs))
    np.testing.assert_allclose(tuned.logits, whole, rtol=1e-4, atol=1e-4 * np.abs(whole).max())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")  # peft asks transformers for it
@pytest.mark.parametrize(
    "name, targets",
    [
        ("llama", ()),
        ("gpt2", ()),
        ("gpt2", ("q", "v", "down")),
        ("phi-3", ("k", "up")),
        ("gpt-neox", ()),
        ("t5", ()),
        ("bart", ("q", "fc1")),
        ("bert", ("q", "down")),
        ("vit", ()),
    ],
)
def test_peft_loads_an_adapter(name, targets, tmp_path):
    import torch
    from peft import PeftModel

    tuned = Tuned(name, Lora(rank=2, alpha=3.0, targets=targets))
    shapes = jax.eval_shape(lambda: tuned.parameters)
    table = tuned.weights.tensors(tuned.config)
    tuned.lora.export(
        tuned.parameters,
        tmp_path / "a",
        table=table,
        shapes=shapes,
        task=FAMILIES[name].task,
        modules=FAMILIES[name].modules,
    )
    tuned.pair.torch.save_pretrained(tmp_path / "base")
    model = PeftModel.from_pretrained(tuned.pair.torch, tmp_path / "a").eval()
    with torch.no_grad():
        theirs = model(**{k: to_torch(v) for k, v in tuned.theirs.items()}).logits.numpy()
    assert np.abs(tuned.logits - theirs).max() < TOLERANCE * max(1, np.abs(theirs).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, targets", [("gpt2", ("q", "v", "down")), ("vit", ()), ("t5", ("q", "wo"))]
)
def test_an_exported_adapter_is_read_again(name, targets, tmp_path):
    tuned = Tuned(name, Lora(rank=2, alpha=3.0, targets=targets))
    table, names = tuned.weights.tensors(tuned.config), FAMILIES[name].modules
    shapes = jax.eval_shape(lambda: tuned.parameters)
    tuned.lora.export(tuned.parameters, tmp_path / "a", table=table, shapes=shapes, modules=names)
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = {p: x.update(sharding=place) for p, x in shapes.items()}
    arrays = read_adapter(tmp_path / "a", tuned.lora, table, like, like, names)
    assert arrays.keys() == {path for path in like if "lora_" in path}
    for path, array in arrays.items():
        np.testing.assert_array_equal(array, tuned.parameters[path])


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")  # peft asks transformers for it
@pytest.mark.parametrize(
    "name, lora",
    [
        ("llama", Lora(rank=2, alpha=3.0, dropout=0.5, rslora=True, dora=True)),
        pytest.param("llama", Lora(rank=2, alpha=3.0, dora=True), marks=pytest.mark.slow),
        # q, k and v are one tensor there, and k has no adapter.
        pytest.param(
            "gpt2",
            Lora(rank=2, alpha=3.0, targets=("q", "v", "up"), rslora=True, dora=True),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_rslora_and_dora_are_those_of_peft_in_and_out(name, lora, tmp_path):
    import torch
    from peft import PeftConfig, PeftModel

    tuned = Tuned(name, lora)
    table, names = tuned.weights.tensors(tuned.config), FAMILIES[name].modules
    shapes = jax.eval_shape(lambda: tuned.parameters)
    parts = {"table": table, "shapes": shapes, "modules": names}
    tuned.lora.export(tuned.parameters, tmp_path / "a", **parts)
    padded = {path: pad(path, x) for path, x in tuned.parameters.items()}
    tuned.lora.export(padded, tmp_path / "padded", **parts)
    files = [
        (tmp_path / folder / "adapter_model.safetensors").read_bytes() for folder in ("a", "padded")
    ]
    assert files[0] == files[1]
    config = PeftConfig.from_pretrained(tmp_path / "a")
    assert (config.use_rslora, config.use_dora) == (lora.rslora, lora.dora)
    assert config.lora_dropout == lora.dropout
    model = PeftModel.from_pretrained(tuned.pair.torch, tmp_path / "a").eval()
    with torch.no_grad():
        theirs = model(**{k: to_torch(v) for k, v in tuned.theirs.items()}).logits.numpy()
    assert np.abs(tuned.logits - theirs).max() < 1e-5 * max(1, np.abs(theirs).max())
    model.save_pretrained(tmp_path / "b")
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = {p: x.update(sharding=place) for p, x in shapes.items()}
    arrays = read_adapter(tmp_path / "b", tuned.lora, table, like, like, names)
    arrays |= changes_of_lengths(arrays, tuned.parameters)
    assert arrays.keys() == {path for path in like if "lora_" in path}
    for path, array in arrays.items():
        np.testing.assert_allclose(array, tuned.parameters[path], atol=1e-5)
    merged = tuned.lora.merge(tuned.parameters)
    whole = tuned.pair.merge(rebuild(tuned.pair.params, merged))(*tuned.inputs)
    assert np.abs(np.asarray(whole) - theirs).max() < 1e-5 * max(1, np.abs(theirs).max())


def pad(path, x):
    """A parameter as it lies in memory where its last dim is padded: that of what an adapter adds to."""
    sides = [(0, 0)] * (x.ndim - 1) + [(0, 3)]
    return jnp.pad(x, sides) if path.endswith(("/q/kernel", "/q/lora_b", "/q/lora_m")) else x


def places(tuned):
    """What `read_adapter` reads into: the parameters of both, on a device."""
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    shapes = jax.eval_shape(lambda: tuned.parameters)
    return {path: x.update(sharding=place) for path, x in shapes.items()}


EXPERTS = Lora(rank=2, alpha=3.0, targets=("q", "gate", "up", "down"))


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")  # peft asks transformers for it
@pytest.mark.filterwarnings("ignore:The following .*_pattern keys")  # peft's own, which it applies
@pytest.mark.parametrize("name", ["mixtral", pytest.param("qwen3-moe", marks=pytest.mark.slow)])
def test_adapters_of_experts_are_those_of_peft_in_and_out(name, tmp_path):
    """A and B of each expert; PEFT has them as one parameter's, and gate's and up's side by side."""
    import torch
    from peft import PeftModel

    tuned = Tuned(name, EXPERTS)
    table, like = tuned.weights.tensors(tuned.config), places(tuned)
    adapter = {path: x for path, x in tuned.parameters.items() if "lora_" in path}
    assert {path.split("/")[-2] for path in adapter} == {*EXPERTS.targets}
    tuned.lora.export(tuned.parameters, tmp_path / "a", table=table, shapes=like)
    model = PeftModel.from_pretrained(tuned.pair.torch, tmp_path / "a").eval()
    with torch.no_grad():
        theirs = model(**{k: to_torch(v) for k, v in tuned.theirs.items()}).logits.numpy()
    close = {"rtol": 1e-5, "atol": 1e-5 * np.abs(theirs).max()}
    np.testing.assert_allclose(tuned.logits, theirs, **close)
    merged = tuned.lora.merge(tuned.parameters)
    whole = tuned.pair.merge(rebuild(tuned.pair.params, merged))(*tuned.inputs)
    np.testing.assert_allclose(np.asarray(whole), theirs, **close)
    model.save_pretrained(tmp_path / "b")
    for folder in "ab":
        arrays = read_expert_adapter(tmp_path / folder, tuned.lora, table, like, like, {})
        assert arrays.keys() == adapter.keys()
        for path, array in arrays.items():
            np.testing.assert_array_equal(array, adapter[path])


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")  # peft asks transformers for it
@pytest.mark.filterwarnings("ignore:The following .*_pattern keys")  # peft's own, which it applies
def test_an_adapter_of_experts_that_peft_trained_is_read(tmp_path):
    """Its gate and up share the features of A; one of gate and up alone is no such adapter, nor is one of other features."""
    import torch
    from peft import LoraConfig, get_peft_model

    tuned = Tuned("mixtral", EXPERTS)
    table, like = tuned.weights.tensors(tuned.config), places(tuned)

    def read(*parameters, lora=tuned.lora, **sizes):
        targets = [f"mlp.experts.{name}" for name in parameters]
        config = {"r": 2, "lora_alpha": 3, "target_modules": ["q_proj"]} | sizes
        config["target_parameters"] = targets
        model = get_peft_model(copy.deepcopy(tuned.pair.torch), LoraConfig(**config)).eval()
        with torch.no_grad():
            for path, weight in model.named_parameters():
                if "lora_" in path:
                    weight.copy_(0.2 * torch.randn(weight.shape))
            theirs = model(**{k: to_torch(v) for k, v in tuned.theirs.items()}).logits.numpy()
        model.save_pretrained(tmp_path / "a")
        return theirs, read_expert_adapter(tmp_path / "a", lora, table, like, like, {})

    theirs, arrays = read("gate_up_proj", "down_proj")
    ours = tuned.compute(arrays)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
    with pytest.raises(UserError, match="has an adapter of some kernels of experts alone"):
        read("gate_up_proj")
    patterns = {"rank_pattern": {"gate_up_proj": 4}, "alpha_pattern": {"gate_up_proj": 6}}
    with pytest.raises(UserError, match="share 4 features: choose a project of --lora rank=4"):
        read("gate_up_proj", "down_proj", **patterns)


@pytest.mark.parametrize(
    "lora, what",
    [
        (Lora(targets=("w1", "w2")), "PEFT has the kernels of an expert as one, and up is not"),
        (Lora(targets=("gate", "up", "down"), dora=True), "PEFT has no dora for the kernels of"),
        (Lora(targets=("gate", "up", "down"), rslora=True), "PEFT has no rslora for the kernels"),
        (Lora(targets=("router",)), "no linear layer 'router'; choose some of q, k, v, o, gate"),
    ],
)
def test_what_is_no_adapter_of_experts(lora, what):
    tensors = named(find_model("mixtral", "", 1))
    with pytest.raises(RedcoError, match=what):
        choose_adapter(linear_layers(tensors), lora, "mixtral", experts=expert_kernels(tensors))


def to_torch(x):
    import torch

    return torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x)


def test_targets_by_any_name():
    names = linear(find_model("gpt2", "", 1))

    def layers(*targets):
        return {*choose_adapter(names, Lora(targets=targets), "gpt2").layers}

    assert layers() == {"q", "k", "v", "o", "up", "down"}
    assert layers("c_attn", "o") == {"q", "k", "v", "o"} and layers("c_proj") == {"o", "down"}
    with pytest.raises(RedcoError, match="no linear layer 'gate'") as error:
        layers("gate")
    assert "choose some of q, k, v, o, up, down, c_attn, c_proj, c_fc" in str(error.value)


@pytest.mark.parametrize(
    "text, value",
    [
        ("rank=8", Lora(8)),
        ("rank=8,base=nf4", Lora(8, base="nf4")),
        ("alpha=4,targets=q,v", Lora(16, 4.0, ("q", "v"))),
        ("dropout=0.05,rslora=true,dora=false", Lora(16, 32.0, dropout=0.05, rslora=True)),
        ("targets=q,v,rank=2", Lora(2, 32.0, ("q", "v"))),
        ("off", None),
        ({"rank": 4, "targets": ["q"]}, Lora(4, 32.0, ("q",))),
    ],
)
def test_what_is_asked_for(text, value):
    assert check_lora("--lora", text) == value
    if value:
        assert check_lora("redco.toml: lora", value.to_dict()) == value


@pytest.mark.parametrize(
    "text, what",
    [
        ("rank=0", "--lora: rank: 0 is no rank"),
        ("rank=x", "--lora: rank: 'x' is no rank"),
        ("sweep=-1", "--lora: sweep: -1 is no number of adapters"),
        ("sweep=all", "--lora: sweep: 'all' is no number of adapters"),
        ("alpha=-1", "--lora: alpha: -1.0 is no scale"),
        ("alpha=nan", "is no scale"),
        ("q,v", "is not understood"),
        ("rank=1,rank=2", "is not understood"),
        ("", "is not understood"),
        ("width=2", "unknown key 'width'"),
        ("targets=", "are no names of layers"),
        ("dropout=1", "--lora: dropout: 1.0 is no share; give a number from 0 to below 1"),
        ("dora=yes", "--lora: dora: 'yes' is neither; give true or false"),
        ("base=int4", "--lora: base: 'int4' is none; choose int8 or nf4"),
        (4, "4 is no table"),
        ({"targets": "q"}, "are no names of layers"),
        ({"rank": True}, "True is no rank"),
    ],
)
def test_what_is_no_adapter(text, what):
    with pytest.raises(RedcoError) as error:
        check_lora("--lora", text)
    assert what in str(error.value)
