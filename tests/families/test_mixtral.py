"""Mixtral and Qwen3-MoE against transformers' PyTorch classes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from families.decoders import S, check_all, check_forward, ids, lengths
from families.parity import TOLERANCE, make_pair
from families.reference import Reference
from families.test_llama import SMALL
from recipes.pipelines import pipeline
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.base.state import ModelState

from redco_new.errors import RedcoError
from redco_new.models.find import find_model

QWEN = {"moe_intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 3, "head_dim": 16}
MIXTRAL = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8}


REFERENCES = {  # parameters: Jiang et al. 2024; the model card of Qwen
    "mixtral": Reference(SMALL | MIXTRAL, check_all, {"8x7b": 46_702_792_704}),
    "qwen3-moe": Reference(
        SMALL | QWEN | {"norm_topk_prob": True}, check_all, {"30b-a3b": 30_532_122_624}
    ),
}


def test_layers_without_experts_are_refused():
    with pytest.raises(RedcoError, match="mlp_only_layers is"):
        make_pair("qwen3-moe", **SMALL, **QWEN, mlp_only_layers=[0])


def test_training_adds_the_routers_loss():
    """The loss and its gradients are transformers', padding left out; shares are not normalized here."""
    keys = {"norm_topk_prob": False, "router_aux_loss_coef": 0.5}
    pair = make_pair("qwen3-moe", **SMALL, **QWEN, **keys)
    check_forward(pair)
    lm, x, mask = pipeline("lm", routed=True), ids(pair), np.arange(S) < lengths()[:, None]

    def loss(model, batch, key):
        return lm.loss(pair.merge(model.params), batch, None), {}

    batch = {"input_ids": jnp.asarray(x), "mask": jnp.asarray(mask)}
    values, grads, _ = jax.jit(mean_and_gradients, static_argnums=(0, 4))(
        loss, ModelState(jax.tree.map(jnp.asarray, pair.params), {}), batch, jax.random.key(0), 1
    )
    theirs = pair.torch(
        torch.tensor(x.astype(np.int64)),
        attention_mask=torch.tensor(mask),
        labels=torch.tensor(np.where(mask, x, -100).astype(np.int64)),
        output_router_logits=True,
    )
    theirs.loss.backward()
    total = values["loss"] + 0.5 * values["router_loss"]
    np.testing.assert_allclose(values["router_loss"], theirs.aux_loss.item(), rtol=1e-5)
    np.testing.assert_allclose(total, theirs.loss.item(), rtol=1e-5)
    router = np.stack([layer.mlp.gate.weight.grad.T for layer in pair.torch.model.layers])
    np.testing.assert_allclose(grads["layers"]["mlp"]["router"]["kernel"], router, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("family", "size", "coefficient"),
    [("mixtral", "8x7b", 0.02), ("mixtral", "8x22b", 0.001), ("qwen3-moe", "30b-a3b", 0.001)],
)
def test_a_size_has_the_coefficient_of_its_checkpoint(family, size, coefficient):
    assert find_model(family, size, 1).full.sizes["router_loss_coef"] == coefficient
