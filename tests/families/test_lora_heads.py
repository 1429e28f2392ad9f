"""An adapter beside a head that is trained in full: the same to PEFT and transformers, and read again.

The head is one that a recipe puts on the model, or that of the model's own classes.
"""

import copy
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import torch
import transformers
from families.parity import TOLERANCE, emitted, linear, random_torch, read, saved
from families.reference import reference
from flax import nnx
from recipes.pipelines import pipeline
from redco_runtime.checkpoints.lora.lora import Lora as Settings
from redco_runtime.checkpoints.lora.peft import read_adapter
from redco_runtime.data.classes import names_there
from redco_runtime.checkpoints.export import export
from redco_runtime.nn.heads.classifier import classify_tokens
from redco_runtime.nn.heads.scores import score_last
from redco_runtime.base.state import flatten, rebuild

from redco_new.generate.read import read_model
from redco_new.models.adapter import adapter_parameters, choose_adapter
from redco_new.models.families import FAMILIES
from redco_new.models.family import CAUSAL
from redco_new.models.recipes import RECIPES
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_new.request.lora import Lora

IDS = np.array([[5, 9, 3, 8, 7, 4], [6, 3, 9, 5, 0, 0]], np.int32)  # 0: padding
MASK = IDS > 0
PIXELS = np.random.default_rng(0).normal(size=(2, 24, 24, 3)).astype(np.float32)
LABELS = ("a", "b", "c")
# The class of transformers, and what modules_to_save calls the head.
CASES = {
    ("llama", "reward"): ("LlamaForSequenceClassification", ["score"]),
    ("gpt2", "classify-text"): ("GPT2ForSequenceClassification", ["score"]),
    ("bert", "classify-text"): (
        "BertForSequenceClassification",
        ["bert.pooler.dense", "classifier"],
    ),
    ("bert", "classify-tokens"): ("BertForTokenClassification", ["classifier"]),
    ("vit", "image"): ("ViTForImageClassification", ["classifier"]),
}


class Tuned:
    """A small model with a head of a recipe: PyTorch's, random, and ours, its adapter and head others.

    parameters: ours, by path. trained: those that are. logits: what ours computes with them.
    """

    def __init__(self, name, recipe, architecture):
        pair, family = reference(name).pair(name), FAMILIES[name]
        labels = 1 if recipe == "reward" else len(LABELS)
        config = copy.deepcopy(pair.torch.config)
        if recipe != "image":
            config.num_labels, config.pad_token_id = labels, 0
        self.torch = random_torch(getattr(transformers, architecture), config, seed=1)
        lora = Lora(rank=2, alpha=3.0)
        adapter = choose_adapter(linear(pair.model), lora, name, RECIPES[recipe].classes)
        module, weights = emitted(pair.model)
        causal = family.provides >= CAUSAL
        steps = pipeline(recipe, adapted=True, causal=causal)
        self.config = getattr(module, family.config_class)(dtype="float32")
        settings = SimpleNamespace(model=self.config, train=SimpleNamespace(labels=LABELS))
        model_class, own = getattr(module, family.model_class), bool(RECIPES[recipe].classes)

        def build(sizes, *, rngs):
            return adapter.put(model_class(sizes, rngs=rngs), rngs)

        make, made = (build, self.config) if own else (partial(steps.with_head, build), settings)
        abstract = nnx.eval_shape(lambda: make(made, rngs=nnx.Rngs(0)))
        self.whole, self.modules = RECIPES[recipe].beside_adapter(family.provides), family.modules
        graph, *parts = nnx.split(abstract, adapter_parameters(self.whole), ...)
        trained, frozen = map(nnx.to_pure_dict, parts)
        draw, stored = np.random.default_rng(0), saved(self.torch)
        self.weights = weights if own else steps.head_weights(settings, weights)
        table = self.weights.tensors(self.config)
        base = {p: read(table[p], x.shape, stored) for p, x in flatten(frozen).items()}
        self.trained = {p: draw.normal(0, 0.2, x.shape) for p, x in flatten(trained).items()}
        self.trained = {p: jax.numpy.float32(x) for p, x in self.trained.items()}
        self.parameters = jax.tree.map(jax.numpy.asarray, base) | self.trained
        self.shapes = jax.eval_shape(lambda: self.parameters)
        model = nnx.merge(graph, *(rebuild(part, self.parameters) for part in (trained, frozen)))
        kinds = {"reward": score_last, "classify-tokens": classify_tokens}
        if recipe in kinds:
            self.logits = kinds[recipe](model, IDS, MASK)
        elif own:
            self.logits = model(PIXELS)
        else:
            self.logits = steps.logits(model, {"input_ids": IDS, "mask": MASK})
        self.lora = Settings(lora.rank, lora.alpha)

    def export(self, folder, task):
        table = self.weights.tensors(self.config)
        names = {"task": task, "saved": self.whole, "modules": self.modules, "labels": LABELS}
        self.lora.export(self.parameters, folder, table=table, shapes=self.shapes, **names)

    def assert_read(self, folder):
        place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        like = {p: self.shapes[p].update(sharding=place) for p in self.trained}
        table = self.weights.tensors(self.config)
        arrays = read_adapter(folder, self.lora, table, self.shapes, like, self.modules)
        assert arrays.keys() == self.trained.keys() >= {f"{self.whole[-1]}/kernel"}
        for path, array in arrays.items():
            np.testing.assert_array_equal(array, self.trained[path])

    def assert_same(self, other):
        inputs = {"input_ids": IDS.astype(np.int64), "attention_mask": MASK.astype(np.int64)}
        if isinstance(other.config, transformers.ViTConfig):
            inputs = {"pixel_values": PIXELS.transpose(0, 3, 1, 2)}
        with torch.no_grad():
            theirs = other.eval()(**{k: torch.from_numpy(x) for k, x in inputs.items()}).logits
        ours, theirs = np.asarray(self.logits), theirs.numpy()
        if ours.ndim == 3:  # what a token is that pads is nobody's concern
            ours, theirs = ours[MASK], theirs[MASK]
        assert np.abs(ours - theirs).max() < TOLERANCE * max(1, np.abs(theirs).max())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")  # peft asks transformers for it
@pytest.mark.parametrize("name, recipe", CASES)
def test_peft_and_transformers_load_it_and_so_do_we(name, recipe, tmp_path):
    from peft import PeftConfig, PeftModel

    architecture, modules = CASES[name, recipe]
    tuned = Tuned(name, recipe, architecture)
    config = tuned.weights.hf_config(tuned.config)
    assert config["architectures"] == [architecture]
    table = tuned.weights.tensors(tuned.config)
    merged = tuned.lora.merge(tuned.parameters)
    padding = {} if recipe == "image" else {"pad_token_id": 0}
    export(merged, tmp_path / "whole", config | {"dtype": "float32"} | padding, table=table)
    tuned.assert_same(getattr(transformers, architecture).from_pretrained(tmp_path / "whole"))
    tuned.export(tmp_path / "adapter", RECIPES[recipe].task)
    assert names_there(tmp_path / "adapter") == LABELS
    assert PeftConfig.from_pretrained(tmp_path / "adapter").modules_to_save == modules
    loaded = PeftModel.from_pretrained(tuned.torch, tmp_path / "adapter")
    tuned.assert_same(loaded)
    loaded.save_pretrained(tmp_path / "peft")
    tuned.assert_read(tmp_path / "adapter")
    tuned.assert_read(tmp_path / "peft")


def test_what_is_trained():
    def design(model, recipe):
        return read_model(Request.from_flags("a", model, recipe=recipe, lora="rank=2"), template)

    with open_template() as template:
        pooled, causal = design("bert", "classify-text"), design("gpt2", "classify-text")
        assert design("bert", "classify-tokens").model.task == "TOKEN_CLS"
    text = 'nnx.Any(nnx.LoRAParam, nnx.PathContains("pooler"), nnx.PathContains("score"))'
    assert pooled.model.trained == text and pooled.model.task == "SEQ_CLS"
    assert causal.model.whole == ("score",) and causal.model.matrices[-1] == "kernel"
    paths = flatten(causal.program().params).keys()
    trained = paths - causal.program().frozen
    assert trained == {path for path in paths if "lora_" in path} | {"score/kernel"}


@pytest.mark.parametrize("base", ["", ",base=nf4"])
def test_the_classes_of_pictures_are_trained_in_float32(base):
    request = Request.from_flags("a", "vit", recipe="image", lora=f"rank=2{base}")
    with open_template() as template:
        design = read_model(request, template)
    program = design.program()
    params = flatten(program.params)
    trained = params.keys() - program.frozen
    head = {path for path in params if path.startswith("head/")}
    assert head == {"head/kernel", "head/bias"}
    assert trained == {path for path in params if "lora_" in path} | head
    assert {str(params[path].dtype) for path in trained} == {"float32"}
