"""Twelve steps beside transformers: which parameters decay, smoothed labels, schedules, clipping, Adam.

The peer is PyTorch's AdamW on transformers' model, with the groups and the loss of transformers' Trainer.
"""

import sys
from types import ModuleType, SimpleNamespace
from unittest import mock

import jax
import jax.numpy as jnp
import jinja2
import numpy as np
import optax
import pytest
import torch
import transformers
from flax import nnx
from families.parity import make_pair, tokens
from generated import ROOT
from recipes.pipelines import pipeline
from redco_runtime.losses import smooth_labels
from transformers.trainer_pt_utils import LabelSmoother

from redco_new.generate.context import ProjectModel
from redco_new.render.python import print_data

TEMPLATE = ROOT / "templates/project/{{ package }}/config.py.jinja"
STEPS, ROWS, LENGTH = 12, 6, 16
SIZES = {
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64},
    "t5": {"d_model": 32, "d_ff": 48, "d_kv": 8, "num_heads": 4, "num_layers": 2},
}
SIZES["t5"] |= {"relative_attention_num_buckets": 8, "decoder_start_token_id": 0}
OFF = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
SIZES["gpt2"] |= OFF
SIZES["t5"] |= {"dropout_rate": 0.0}
# As TrainingArguments has it, but for what a test is to tell apart from 0.
SETTINGS = {"learning_rate": 5e-3, "learning_rate_decay": "linear", "final_rate": 0.0}
SETTINGS |= {
    "beta2": 0.999,
    "adam_epsilon": 1e-6,
    "warmup_steps": 4,
    "weight_decay": 3.0,
    "clip_norm": 0.3,
}
SMOOTHING = 0.1


def rule(family):
    """The Optimizer of the config.py of a family, of SETTINGS."""
    model = ProjectModel("Net", "Net", "Net", "Net", "", bias_tables=family.bias_tables)
    recipe = {"data_class": "", "train_lines": [], "tiny": {}, "rate": "0.0", "rate_reason": "Any"}
    text = jinja2.Template(TEMPLATE.read_text(), trim_blocks=True).render(
        package="trained",
        model=model,
        recipe=SimpleNamespace(**recipe),
        layout=SimpleNamespace(saved={}),
        python=print_data,
    )
    names = vars(module := ModuleType("trained.config"))
    stub = ModuleType("trained.model")
    stub.Net = type("Net", (), {})
    with mock.patch.dict(sys.modules, {"trained.model": stub, "trained.config": module}):
        exec(
            compile(text.split("@dataclass(frozen=True)\nclass Train")[0], TEMPLATE, "exec"), names
        )
    return module.Optimizer(**SETTINGS)


def rows(name, vocab, step):
    """A batch as the pipeline of a family has it, some of it padding, and what transformers is given."""
    ids, mask = tokens(vocab, ROWS, LENGTH, seed=step), np.ones((ROWS, LENGTH), bool)
    mask[: ROWS // 2, LENGTH - 5 :] = False
    ids = np.where(mask, ids, 0)
    theirs = {"input_ids": ids, "attention_mask": mask, "labels": np.where(mask, ids, -100)}
    ours = {"input_ids": ids, "mask": mask}
    if name == "t5":
        labels = tokens(vocab, ROWS, 7, seed=step + 99)
        label_mask = np.arange(7) < np.array([7, 7, 7, 4, 4, 2])[:, None]
        before = np.concatenate([np.zeros((ROWS, 1), np.int32), labels[:, :-1]], axis=1)
        ours |= {"decoder_ids": before, "labels": labels, "label_mask": label_mask}
        theirs |= {"labels": np.where(label_mask, labels, -100), "decoder_input_ids": before}
    return ours, {name: torch.tensor(x.astype(np.int64)) for name, x in theirs.items()}


def train_ours(pair, optimizer, loss, batches):
    """The loss and the norm of the gradient at each step."""
    transform = optimizer.transform(STEPS)

    @jax.jit
    def step(params, state, batch):
        def mean(params):
            model = pair.merge(params, remat="everything_saveable")
            with smooth_labels(SMOOTHING):
                losses, weights = loss(model, batch, nnx.Rngs(0))
            return (losses * weights).sum() / weights.sum()

        value, grads = jax.value_and_grad(mean)(params)
        updates, state = transform.update(grads, state, params)
        return optax.apply_updates(params, updates), state, (value, optax.tree.norm(grads))

    params = jax.tree.map(jnp.asarray, pair.params)
    state, figures = transform.init(params), []
    for batch in batches:
        params, state, numbers = step(params, state, batch)
        figures.append([float(x) for x in numbers])
    return np.array(figures).T


def train_theirs(model, optimizer, batches, shift):
    """The same of PyTorch's model, as transformers' Trainer has it."""
    decayed = transformers.Trainer.get_decay_parameter_names(None, model)
    groups = [
        {"params": [p for n, p in model.named_parameters() if (n in decayed) == yes], **decay}
        for yes, decay in ((True, {"weight_decay": optimizer.weight_decay}), (False, {}))
    ]
    adam = torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=optimizer.adam_epsilon, weight_decay=0)
    smoother, rate, figures = LabelSmoother(SMOOTHING), optimizer.schedule(STEPS), []
    for number, batch in enumerate(batches):
        for group in adam.param_groups:
            group["lr"] = float(rate(number))
        labels = batch["labels"]
        outputs = model(**{k: x for k, x in batch.items() if k != "labels"})
        loss = smoother({"logits": outputs.logits}, labels, shift_labels=shift)
        adam.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer.clip_norm)
        adam.step()
        figures.append([loss.item(), norm.item()])
    return np.array(figures).T


@pytest.mark.parametrize("name", SIZES)
def test_each_step_is_that_of_transformers(name):
    pair = make_pair(name, vocab_size=97, **SIZES[name])
    optimizer, recipe = rule(pair.model.family), "seq2seq" if name == "t5" else "lm"
    batches = [rows(name, 97, step % 2) for step in range(STEPS)]
    ours = train_ours(pair, optimizer, pipeline(recipe).loss, [ours for ours, _ in batches])
    theirs = train_theirs(pair.torch, optimizer, [x for _, x in batches], shift=name != "t5")
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-5)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-2)
    assert ours[0][-1] < ours[0][0] - 0.1 and ours[1].max() > optimizer.clip_norm
