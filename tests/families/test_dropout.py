"""Losses with dropout beside PyTorch's: one text, many draws, of which mean and spread are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from families.parity import emitted, make_pair, tokens
from families.training import SIZES, VOCAB
from flax import nnx
from redco_runtime.nn.dropout import drop_by_example
from redco_runtime.nn.plain_losses import class_losses

from redco_new.models.dropout import with_dropout
from redco_new.models.recipes import RECIPES
from redco_new.request import Request

DRAWS, LENGTH, RATE = 4000, 12, 0.3
RATES = {
    "gpt2": ("embd_pdrop", "resid_pdrop", "attn_pdrop"),
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
}


def draws(name, key):
    """Losses of DRAWS draws with the rate of `key`: (ours, theirs), and the one of evaluation."""
    config = SIZES[name] | {key: RATE}
    pair = make_pair(name, 1, **config)
    request = Request.from_flags("a", name, dropout=str(RATE))
    model = with_dropout(pair.model, request, RECIPES["mlm" if name == "bert" else "lm"])
    off = {other: 0.0 for other in RATES[name] if other != key}
    module, _ = emitted(model)
    ids_BS = np.repeat(tokens(VOCAB, 1, LENGTH), DRAWS, axis=0)
    build = getattr(module, pair.model.family.model_class)
    sizes = getattr(module, pair.model.family.config_class)(dtype="float32", **off)

    @jax.jit
    def ours(params, key):
        net = build(sizes, rngs=nnx.Rngs(0))
        nnx.update(net, params)
        net.train()
        ids = drop_by_example(net, ids_BS, key)
        inputs = (ids, jnp.ones(ids.shape, bool)) if name == "bert" else (ids,)
        return class_losses(net(*inputs)[:, :-1], ids[:, 1:]).mean(axis=1)

    reference = pair.torch
    losses = []
    for training in (True, False):
        reference.train(training)
        torch.manual_seed(0)
        with torch.no_grad():
            scores = reference(torch.tensor(ids_BS).long()).logits[:, :-1]
        labels = torch.tensor(ids_BS[:, 1:]).long()
        each = torch.nn.functional.cross_entropy(scores.transpose(1, 2), labels, reduction="none")
        losses.append(each.mean(dim=1).numpy())
    return np.asarray(ours(pair.params, jax.random.key(0))), losses[0], losses[1].mean()


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in RATES for key in RATES[name]])
def test_losses_are_those_of_torch_in_mean_and_spread(name, key):
    ours, theirs, still = draws(name, key)
    error = np.sqrt((ours.var() + theirs.var()) / DRAWS)
    assert abs(ours.mean() - theirs.mean()) < 4 * error
    # A standard deviation of n draws is known to about 1 / sqrt(2 n) of it.
    assert abs(np.log(ours.std() / theirs.std())) < 6 / np.sqrt(2 * DRAWS)
    assert ours.std() > 1e-3 and len({*ours.tolist()}) > DRAWS / 2
