"""Losses with dropout beside PyTorch's: one example, many draws, of which mean and spread are the same."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from families.parity import emitted, make_pair, tokens
from families.training import SIZES, VOCAB
from flax import nnx
from programs import FAST
from redco_runtime.nn.dropout import Dropout, drop_by_example
from redco_runtime.nn.plain_losses import class_losses

from redco_new.models.dropout import with_dropout
from redco_new.models.recipes import RECIPES
from redco_new.request import Request

DRAWS, LENGTH, RATE = 4000, 12, 0.3
TEXT = {"vocab_size": VOCAB, "max_position_embeddings": 64}
# Family -> keys of a small one's config.json, with those that are rates.
FORMS = {
    **{name: SIZES[name] for name in ("gpt2", "bert", "t5")},
    "vit": SIZES["vit"] | dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0),
    "opt": TEXT
    | {"hidden_size": 32, "word_embed_proj_dim": 16, "ffn_dim": 48, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "do_layer_norm_before": False}
    | {"dropout": 0.0, "attention_dropout": 0.0},
    "bart": TEXT
    | {"d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    | dict.fromkeys(("encoder_layers", "decoder_layers"), 2)
    | dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
    | dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0),
}
CASES = [(name, key) for name, form in FORMS.items() for key in form if "drop" in key]
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def inputs(name):
    """One example DRAWS times: (what our model takes, what PyTorch's takes, labels)."""
    ids = np.repeat(tokens(VOCAB, 1, LENGTH), DRAWS, axis=0)
    mask = np.ones(ids.shape, bool)
    if name == "vit":
        one = np.random.default_rng(0).normal(size=(1, 16, 16, 3)).astype(np.float32)
        pixels = np.repeat(one, DRAWS, axis=0)
        return (pixels,), {"pixel_values": np.moveaxis(pixels, 3, 1)}, ids[:, 0] % 7
    if name in ("t5", "bart"):
        source = ids[:, ::-1].copy()
        return (source, mask, ids), {"input_ids": source, "decoder_input_ids": ids}, ids
    return (ids, mask) if name == "bert" else (ids,), {"input_ids": ids}, ids


def draws(name, key, only=("", ""), **others):
    """Losses of DRAWS draws with the rate of `key`: (ours, theirs).

    only: what our modules and PyTorch's that drop end in, where others are to drop nothing; "" for all.
    """
    pair = make_pair(name, 1, **FORMS[name] | {key: RATE} | others)
    family, source = pair.model.family, {"model_type": name} | FORMS[name] | {key: RATE}
    request, recipe = Request.from_flags("a", f"./{name}"), RECIPES[family.recipes[0]]
    model = with_dropout(replace(pair.model, source=source), request, recipe)
    assert [*model.context("a").rates] == [key]
    module, _ = emitted(model)
    build = getattr(module, family.model_class)
    sizes = getattr(module, family.config_class)(dtype="float32")
    arguments, keywords, labels = inputs(name)

    @partial(jax.jit, compiler_options=FAST)
    def ours(params, key):
        net = build(sizes, rngs=nnx.Rngs(0))
        nnx.update(net, params)
        net.train()
        for path, module in nnx.iter_modules(net):
            if isinstance(module, Dropout) and not path[-1].endswith(only[0]):
                module.rate = 0.0
        losses = class_losses(net(*drop_by_example(net, arguments, key)), jnp.asarray(labels))
        return losses.reshape(DRAWS, -1).mean(axis=1)

    for path, module in pair.torch.named_modules():
        if isinstance(module, torch.nn.Dropout) and not path.endswith(only[1]):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float) and not path.endswith(only[1]):
            module.dropout = 0.0  # of an attention of T5
    torch.manual_seed(0)
    with torch.no_grad():
        scores = pair.torch.train()(**{k: torch.tensor(x) for k, x in keywords.items()}).logits
    wanted = torch.tensor(labels.reshape(-1)).long()
    theirs = torch.nn.functional.cross_entropy(
        scores.reshape(len(wanted), -1), wanted, reduction="none"
    )
    theirs = theirs.reshape(DRAWS, -1).mean(dim=1).numpy()
    return np.asarray(ours(pair.params, jax.random.key(0))), theirs


def check(ours, theirs):
    error = np.sqrt((ours.var() + theirs.var()) / DRAWS)
    assert abs(ours.mean() - theirs.mean()) < 4 * error
    # A standard deviation of n draws is known to about 1 / sqrt(2 n) of it.
    assert abs(np.log(ours.std() / theirs.std())) < 6 / np.sqrt(2 * DRAWS)
    assert ours.std() > 1e-3 and len({*ours.tolist()}) > DRAWS / 2


@pytest.mark.parametrize(("name", "key"), CASES)
def test_losses_are_those_of_torch_in_mean_and_spread(name, key):
    check(*draws(name, key))


@pytest.mark.parametrize(
    ("only", "form"),
    [(("drop_weights", "Attention"), {}), (("drop_inner", "DenseReluDense.dropout"), GATED)],
)
def test_so_they_are_where_the_one_rate_of_t5_moves_them_little(only, form):
    check(*draws("t5", "dropout_rate", only, **form))
