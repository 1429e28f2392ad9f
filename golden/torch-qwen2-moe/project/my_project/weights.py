# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""What Hugging Face calls each parameter of Qwen2MoeForCausalLM, and the config.json that goes with them."""

from typing import Any

from my_project.model import Qwen2MoeForCausalLMConfig
from my_project.runtime.base.state import PyTree, flatten
from my_project.runtime.base.tensor_parts import part_tensors
from my_project.runtime.base.tensors import Tensor
from my_project.sharding import APART

PREFIX = "model."  # that checkpoints of the model without its head leave out
IGNORED = ()  # names in a file of what the model does not hold
CONFIG = {
    "model_type": "qwen2_moe",
    "architectures": ["Qwen2MoeForCausalLM"],
    "intermediate_size": 128,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "use_sliding_window": False,
    "sliding_window": 0,
    "max_window_layers": 28,
    "attention_dropout": 0.0,
    "decoder_sparse_step": 1,
    "norm_topk_prob": False,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
    "qkv_bias": True,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}


def tensors(config: Qwen2MoeForCausalLMConfig) -> dict[str, Tensor]:
    """Return path of an array in model.py -> the tensor of PyTorch that it is, or is part of."""
    table = {
        "lm_head/kernel": Tensor("lm_head.weight", (1, 0)),
        "model/embed_tokens/embedding": Tensor("model.embed_tokens.weight"),
        "model/layers/input_layernorm/weight": Tensor("model.layers.{}.input_layernorm.weight"),
        "model/layers/mlp/experts/down_proj": Tensor(
            "model.layers.{}.mlp.experts.{}.down_proj.weight", (1, 0)
        ),
        "model/layers/mlp/experts/gate_proj": Tensor(
            "model.layers.{}.mlp.experts.{}.gate_proj.weight", (1, 0)
        ),
        "model/layers/mlp/experts/up_proj": Tensor(
            "model.layers.{}.mlp.experts.{}.up_proj.weight", (1, 0)
        ),
        "model/layers/mlp/gate/weight": Tensor("model.layers.{}.mlp.gate.weight"),
        "model/layers/mlp/shared_expert/down_proj/kernel": Tensor(
            "model.layers.{}.mlp.shared_expert.down_proj.weight", (1, 0)
        ),
        "model/layers/mlp/shared_expert/gate_proj/kernel": Tensor(
            "model.layers.{}.mlp.shared_expert.gate_proj.weight", (1, 0)
        ),
        "model/layers/mlp/shared_expert/up_proj/kernel": Tensor(
            "model.layers.{}.mlp.shared_expert.up_proj.weight", (1, 0)
        ),
        "model/layers/mlp/shared_expert_gate/kernel": Tensor(
            "model.layers.{}.mlp.shared_expert_gate.weight", (1, 0)
        ),
        "model/layers/post_attention_layernorm/weight": Tensor(
            "model.layers.{}.post_attention_layernorm.weight"
        ),
        "model/layers/self_attn/k_proj/bias": Tensor("model.layers.{}.self_attn.k_proj.bias"),
        "model/layers/self_attn/k_proj/kernel": Tensor(
            "model.layers.{}.self_attn.k_proj.weight", (1, 0)
        ),
        "model/layers/self_attn/o_proj/kernel": Tensor(
            "model.layers.{}.self_attn.o_proj.weight", (1, 0)
        ),
        "model/layers/self_attn/q_proj/bias": Tensor("model.layers.{}.self_attn.q_proj.bias"),
        "model/layers/self_attn/q_proj/kernel": Tensor(
            "model.layers.{}.self_attn.q_proj.weight", (1, 0)
        ),
        "model/layers/self_attn/v_proj/bias": Tensor("model.layers.{}.self_attn.v_proj.bias"),
        "model/layers/self_attn/v_proj/kernel": Tensor(
            "model.layers.{}.self_attn.v_proj.weight", (1, 0)
        ),
        "model/norm/weight": Tensor("model.norm.weight"),
    }
    return part_tensors(table, APART)


def saved(config: Qwen2MoeForCausalLMConfig, variables: PyTree) -> dict[str, Any]:
    """Return path -> array of the variables that PyTorch saves too: what else there is follows from the config."""
    table = tensors(config)
    return {path: array for path, array in flatten(variables).items() if path in table}


def hf_config(config: Qwen2MoeForCausalLMConfig) -> dict[str, Any]:
    """Return the config.json of a model of these sizes."""
    return CONFIG | {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "max_position_embeddings": config.max_position_embeddings,
        "initializer_range": config.initializer_range,
        "rms_norm_eps": config.rms_norm_eps,
        "moe_intermediate_size": config.moe_intermediate_size,
        "shared_expert_intermediate_size": config.shared_expert_intermediate_size,
        "num_experts_per_tok": config.num_experts_per_tok,
        "num_experts": config.num_experts,
        "num_hidden_layers": config.num_hidden_layers,
    }
