# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""What Hugging Face calls each parameter, and the config.json that goes with them."""

from typing import Any

from my_project.model import LlamaConfig
from my_project.runtime.base.tensors import Tensor

PREFIX = "model."  # that checkpoints of the model without its head leave out
IGNORED = ("*.rotary_emb.inv_freq",)  # constants
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "mlp_bias": False,
    "pad_token_id": None,
    "pretraining_tp": 1,
    "tie_word_embeddings": False,
    "use_cache": True,
}


def tensors(config: LlamaConfig) -> dict[str, Tensor]:
    """Return path of a parameter -> the tensor that holds it."""
    layer, transposed = "model.layers.{}", (1, 0)
    return {
        "embed/embedding": Tensor("model.embed_tokens.weight"),
        "layers/ln_1/scale": Tensor(f"{layer}.input_layernorm.weight"),
        "layers/attn/q/kernel": Tensor(f"{layer}.self_attn.q_proj.weight", transposed),
        "layers/attn/k/kernel": Tensor(f"{layer}.self_attn.k_proj.weight", transposed),
        "layers/attn/v/kernel": Tensor(f"{layer}.self_attn.v_proj.weight", transposed),
        "layers/attn/o/kernel": Tensor(f"{layer}.self_attn.o_proj.weight", transposed),
        "layers/ln_2/scale": Tensor(f"{layer}.post_attention_layernorm.weight"),
        "layers/mlp/gate/kernel": Tensor(f"{layer}.mlp.gate_proj.weight", transposed),
        "layers/mlp/up/kernel": Tensor(f"{layer}.mlp.up_proj.weight", transposed),
        "layers/mlp/down/kernel": Tensor(f"{layer}.mlp.down_proj.weight", transposed),
        "ln/scale": Tensor("model.norm.weight"),
        "head/kernel": Tensor("lm_head.weight", transposed),
    }


def hf_config(config: LlamaConfig) -> dict[str, Any]:
    """Return the config.json of a model of these sizes."""
    rope = {
        "rope_type": "default",
        "rope_theta": config.rope_theta,
    }
    return CONFIG | {
        "vocab_size": config.vocab_size,
        "hidden_size": config.embed_dim,
        "intermediate_size": config.mlp_dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.norm_epsilon,
        "head_dim": config.head_dim,
        "rope_parameters": rope,
    }
