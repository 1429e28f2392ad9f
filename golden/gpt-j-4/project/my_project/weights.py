# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""What Hugging Face calls each parameter, and the config.json that goes with them."""

from typing import Any

from my_project.model import GPTJConfig
from my_project.runtime.base.tensors import Tensor

PREFIX = "transformer."  # that checkpoints of the model without its head leave out
IGNORED = ("*.attn.bias", "*.attn.masked_bias", "*.attn.embed_positions")  # constants
CONFIG = {
    "model_type": "gptj",
    "architectures": ["GPTJForCausalLM"],
    "activation_function": "gelu_new",
    "attn_pdrop": 0.0,
    "bos_token_id": 50256,
    "embd_pdrop": 0.0,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "pad_token_id": None,
    "resid_pdrop": 0.0,
    "tie_word_embeddings": False,
    "use_cache": True,
}


def tensors(config: GPTJConfig) -> dict[str, Tensor]:
    """Return path of a parameter -> the tensor that holds it."""
    layer, transposed = "transformer.h.{}", (1, 0)
    return {
        "embed/embedding": Tensor("transformer.wte.weight"),
        "layers/ln/scale": Tensor(f"{layer}.ln_1.weight"),
        "layers/ln/bias": Tensor(f"{layer}.ln_1.bias"),
        "layers/attn/q/kernel": Tensor(f"{layer}.attn.q_proj.weight", transposed),
        "layers/attn/k/kernel": Tensor(f"{layer}.attn.k_proj.weight", transposed),
        "layers/attn/v/kernel": Tensor(f"{layer}.attn.v_proj.weight", transposed),
        "layers/attn/o/kernel": Tensor(f"{layer}.attn.out_proj.weight", transposed),
        "layers/mlp/up/kernel": Tensor(f"{layer}.mlp.fc_in.weight", transposed),
        "layers/mlp/up/bias": Tensor(f"{layer}.mlp.fc_in.bias"),
        "layers/mlp/down/kernel": Tensor(f"{layer}.mlp.fc_out.weight", transposed),
        "layers/mlp/down/bias": Tensor(f"{layer}.mlp.fc_out.bias"),
        "ln/scale": Tensor("transformer.ln_f.weight"),
        "ln/bias": Tensor("transformer.ln_f.bias"),
        "head/kernel": Tensor("lm_head.weight", transposed),
        "head/bias": Tensor("lm_head.bias"),
    }


def hf_config(config: GPTJConfig) -> dict[str, Any]:
    """Return the config.json of a model of these sizes."""
    return CONFIG | {
        "vocab_size": config.vocab_size,
        "n_embd": config.embed_dim,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        "rotary_dim": config.rotary_dim,
        "n_positions": config.max_positions,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "n_inner": config.mlp_dim,
    }
