"""Steps of training beside transformers' Trainer: the same weights, rows and settings, in float32."""

import sys
import tempfile
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import jinja2
import numpy as np
import optax
import torch
import transformers
from families.parity import Pair, make_pair, tokens
from flax import nnx
from generated import ROOT
from recipes.pipelines import pipeline
from redco_runtime.nn.plain_losses import smooth_labels
from redco_runtime.data.text.masking import NOT_ASKED

from redco_new.generate.project_model import ProjectModel
from redco_new.models.family import Family
from redco_new.models.recipes import Rate
from redco_new.render.python import print_data

TEMPLATE = "project/{{ package }}/config.py.jinja"
ROWS, LENGTH, TARGET, VOCAB = 6, 16, 7, 97
DECODER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
DECODER |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB}
BERT = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
BERT |= {"num_attention_heads": 4, "vocab_size": VOCAB, "max_position_embeddings": 64}
BERT |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# Family -> keys of a small one's config.json, without dropout.
SIZES: dict[str, dict[str, Any]] = {
    "llama": DECODER,
    "qwen3": DECODER | {"head_dim": 8},
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64, "vocab_size": VOCAB}
    | dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    "t5": {"d_model": 32, "d_ff": 48, "d_kv": 8, "num_heads": 4, "num_layers": 2}
    | {"relative_attention_num_buckets": 8, "decoder_start_token_id": 0, "dropout_rate": 0.0}
    | {"vocab_size": VOCAB},
    "bert": BERT,
    "vit": {"image_size": 16, "patch_size": 4, "num_labels": 7, "hidden_size": 32}
    | {"intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4},
}
RECIPES = {"t5": "seq2seq", "bert": "mlm", "vit": "image"}  # of the others: lm
# Of Optimizer in config.py; the rest is as it is there. The schedule is Trainer's: no warm-up, to 0.
SETTINGS: dict[str, Any] = {"learning_rate_decay": "linear", "final_rate": 0.0, "warmup_steps": 0}
SETTINGS |= {"learning_rate": 1e-3, "beta2": 0.999, "adam_epsilon": 1e-6}


def make_rule(family: Family, settings: dict[str, Any]) -> Any:
    """Return the Optimizer of the config.py of a family."""
    model = ProjectModel("Net", "Net", "Net", bias_tables=family.bias_tables)
    recipe = {"data": "own", "tokenizer": "", "sequence_length": 0, "settings": []}
    templates = jinja2.FileSystemLoader(ROOT / "templates")
    text = (
        jinja2.Environment(loader=templates, trim_blocks=True)
        .get_template(TEMPLATE)
        .render(
            package="trained",
            model=model,
            request=SimpleNamespace(features=(), products="compute", optimizer_memory="device"),
            recipe=SimpleNamespace(**recipe, rate=Rate(1e-4, "Any")),
            layout=SimpleNamespace(saved={}),
            python=print_data,
        )
    )
    names = vars(module := ModuleType("trained.config"))
    stub = ModuleType("trained.model")
    stub.Net = type("Net", (), {})  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {"trained.model": stub, "trained.config": module}):
        exec(
            compile(text.split("@dataclass(frozen=True)\nclass Train")[0], TEMPLATE, "exec"), names
        )
    return names["Optimizer"](**settings)


def batch_of(name: str, seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a batch as the pipeline of a family has it, some of it padding, and as transformers has it."""
    if name == "vit":
        pixels = np.random.default_rng(seed).integers(0, 256, (ROWS, 16, 16, 3)).astype(np.uint8)
        label = (np.arange(ROWS, dtype=np.int32) + seed) % 7
        values = np.moveaxis(pixels, 3, 1).astype(np.float32) / 127.5 - 1  # as ViTImageProcessor
        return {"pixels": pixels, "label": label}, {"pixel_values": values, "labels": label}
    ids, mask = tokens(VOCAB, ROWS, LENGTH, seed=seed), np.ones((ROWS, LENGTH), bool)
    mask[: ROWS // 2, LENGTH - 5 :] = False
    ids = np.where(mask, ids, 0)
    ours, labels = {"input_ids": ids, "mask": mask}, np.where(mask, ids, -100)
    if name == "bert":
        hidden = mask & (np.arange(LENGTH) % 4 == 1)
        labels = np.where(hidden, ids, -100)
        asked = np.where(hidden, ids, NOT_ASKED)
        ours |= {"input_ids": np.where(hidden, 3, ids), "labels": asked}
    elif name == "t5":
        target = tokens(VOCAB, ROWS, TARGET, seed=seed + 99)
        label_mask = np.arange(TARGET) < np.array([7, 7, 7, 4, 4, 2])[:, None]
        before = np.concatenate([np.zeros((ROWS, 1), np.int32), target[:, :-1]], axis=1)
        ours |= {"decoder_ids": before, "labels": target, "label_mask": label_mask}
        labels = np.where(label_mask, target, -100)
        theirs = {"attention_mask": mask, "labels": labels, "decoder_input_ids": before}
        return ours, {"input_ids": ids} | theirs
    else:
        labels[:, 0] = -100  # which nothing predicts: Trainer counts it for gpt2, and divides by it
    return ours, {"input_ids": ours["input_ids"], "attention_mask": mask, "labels": labels}


def train_ours(
    pair: Pair, optimizer: Any, name: str, steps: int, smoothing: float, seeds: int
) -> np.ndarray:
    """Return the loss and the norm of the gradient at each step: (2, steps)."""
    transform, loss = optimizer.transform(steps), pipeline(RECIPES.get(name, "lm")).loss

    @jax.jit
    def step(params, state, batch):
        def mean(params):
            model = pair.merge(params, remat="everything_saveable")
            with smooth_labels(smoothing):
                losses, weights = loss(model, batch, nnx.Rngs(0))
            return (losses * weights).sum() / weights.sum()

        value, grads = jax.value_and_grad(mean)(params)
        updates, state = transform.update(grads, state, params)
        return optax.apply_updates(params, updates), state, (value, optax.tree.norm(grads))

    params = jax.tree.map(jnp.asarray, pair.params)
    state, figures = transform.init(params), []
    for number in range(steps):
        params, state, values = step(params, state, batch_of(name, number % seeds)[0])
        figures.append([float(x) for x in values])
    return np.array(figures).T


def train_theirs(
    pair: Pair, optimizer: Any, name: str, steps: int, smoothing: float, seeds: int
) -> np.ndarray:
    """Return the same of transformers' Trainer, which takes the rows in their order."""

    # Here, as it takes a second to import, and other tests read this file too.
    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, dataset=None):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    batches = [batch_of(name, number % seeds)[1] for number in range(steps)]
    kinds = {"attention_mask": torch.long, "pixel_values": torch.float32}
    rows = [
        {key: torch.tensor(x[i], dtype=kinds.get(key, torch.long)) for key, x in batch.items()}
        for batch in batches
        for i in range(ROWS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=ROWS,
            max_steps=steps,
            learning_rate=optimizer.learning_rate,
            lr_scheduler_type="linear",
            weight_decay=optimizer.weight_decay,
            adam_beta1=optimizer.beta1,
            adam_beta2=optimizer.beta2,
            adam_epsilon=optimizer.adam_epsilon,
            max_grad_norm=optimizer.clip_norm,
            label_smoothing_factor=smoothing,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            remove_unused_columns=False,
        )
        trainer = InOrder(pair.torch.train(), arguments, train_dataset=rows)
        trainer.train()
    logs = [log for log in trainer.state.log_history if "grad_norm" in log]
    return np.array([[log["loss"], float(log["grad_norm"])] for log in logs]).T


def train_both(
    name: str, steps: int, smoothing: float = 0.0, seeds: int = 2, **settings: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses and norms of both. seeds: how many batches come round."""
    pair = make_pair(name, **SIZES[name])
    optimizer = make_rule(pair.model.family, SETTINGS | settings)
    arguments = (pair, optimizer, name, steps, smoothing, seeds)
    return train_ours(*arguments), train_theirs(*arguments)
