"""The tensors that a server's class takes of a checkpoint, and their shapes, read in the source of vLLM and SGLang.

A shape is written in E hidden_size, F the inner size, H heads, K heads of keys, D head_dim, V vocab_size, P positions, X experts.
What is stacked in the server (q, k and v; gate and up) stands here as it is in files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VLLM, SGLANG = "vLLM 0.33.0", "SGLang 0.5.23"

EMBED = {"model.embed_tokens.weight": "V, E"}
HEAD = {"lm_head.weight": "V, E"}
ATTENTION = {
    "self_attn.q_proj.weight": "H * D, E",
    "self_attn.k_proj.weight": "K * D, E",
    "self_attn.v_proj.weight": "K * D, E",
    "self_attn.o_proj.weight": "E, H * D",
}
FUSED = {
    "self_attn.qkv_proj.weight": "(H + 2 * K) * D, E",
    "self_attn.o_proj.weight": "E, H * D",
    "mlp.gate_up_proj.weight": "2 * F, E",
    "mlp.down_proj.weight": "E, F",
}
QKV_BIAS = {
    "self_attn.q_proj.bias": "H * D",
    "self_attn.k_proj.bias": "K * D",
    "self_attn.v_proj.bias": "K * D",
}
QK_NORM = {"self_attn.q_norm.weight": "D", "self_attn.k_norm.weight": "D"}
GATED = {
    "mlp.gate_proj.weight": "F, E",
    "mlp.up_proj.weight": "F, E",
    "mlp.down_proj.weight": "E, F",
}
NORMS = {"input_layernorm.weight": "E", "post_attention_layernorm.weight": "E"}
AROUND = {"pre_feedforward_layernorm.weight": "E", "post_feedforward_layernorm.weight": "E"}


def model(*layer: Mapping[str, str]) -> dict[str, str]:
    """Return the tensors of a model of Llama's kin whose layers have these."""
    rows = {f"model.layers.{{}}.{name}": shape for part in layer for name, shape in part.items()}
    return EMBED | rows | {"model.norm.weight": "E"}


def layers(prefix: str, norms: tuple[str, ...], **layer: str) -> dict[str, str]:
    """Return the tensors of layers with biases. norms: those with a weight and a bias of E."""
    rows = {f"{name}.{end}": "E" for name in norms for end in ("weight", "bias")}
    rows |= {name.replace("__", "."): shape for name, shape in layer.items()}
    return {f"{prefix}.{{}}.{name}": shape for name, shape in rows.items()}


@dataclass(frozen=True)
class Served:
    """What servers take of a family.

    vllm, sglang: the file of the class that opens it, under vllm/model_executor/models and sglang/srt/models.
    tensors: name, {} for a number -> shape.
    head: those that are there where the embedding is not tied.
    keys: of config.json, that a class refuses to be otherwise, by an assertion.
    """

    vllm: str
    sglang: str
    tensors: Mapping[str, str]
    head: Mapping[str, str] = field(default_factory=lambda: HEAD)
    keys: Mapping[str, Any] = field(default_factory=dict)


GPT2 = layers(
    "transformer.h",
    ("ln_1", "ln_2"),
    attn__c_attn__weight="E, 3 * E",
    attn__c_attn__bias="3 * E",
    attn__c_proj__weight="E, E",
    attn__c_proj__bias="E",
    mlp__c_fc__weight="E, F",
    mlp__c_fc__bias="F",
    mlp__c_proj__weight="F, E",
    mlp__c_proj__bias="E",
)
GPT_J = layers(
    "transformer.h",
    ("ln_1",),
    attn__q_proj__weight="E, E",
    attn__k_proj__weight="E, E",
    attn__v_proj__weight="E, E",
    attn__out_proj__weight="E, E",
    mlp__fc_in__weight="F, E",
    mlp__fc_in__bias="F",
    mlp__fc_out__weight="E, F",
    mlp__fc_out__bias="E",
)
GPT_NEOX = layers(
    "gpt_neox.layers",
    ("input_layernorm", "post_attention_layernorm"),
    attention__query_key_value__weight="3 * E, E",
    attention__query_key_value__bias="3 * E",
    attention__dense__weight="E, E",
    attention__dense__bias="E",
    mlp__dense_h_to_4h__weight="F, E",
    mlp__dense_h_to_4h__bias="F",
    mlp__dense_4h_to_h__weight="E, F",
    mlp__dense_4h_to_h__bias="E",
)
OPT = layers(
    "model.decoder.layers",
    ("self_attn_layer_norm", "final_layer_norm"),
    **{
        f"self_attn__{x}_proj__{y}": z
        for x in "qkv"
        for y, z in (("weight", "E, E"), ("bias", "E"))
    },
    self_attn__out_proj__weight="E, E",
    self_attn__out_proj__bias="E",
    fc1__weight="F, E",
    fc1__bias="F",
    fc2__weight="E, F",
    fc2__bias="E",
)
ENDS = {
    "transformer.wte.weight": "V, E",
    "transformer.ln_f.weight": "E",
    "transformer.ln_f.bias": "E",
}
NEOX_ENDS = {
    "gpt_neox.embed_in.weight": "V, E",
    "gpt_neox.final_layer_norm.weight": "E",
    "gpt_neox.final_layer_norm.bias": "E",
}
OPT_ENDS = {
    "model.decoder.embed_tokens.weight": "V, E",
    "model.decoder.embed_positions.weight": "P + 2, E",
    "model.decoder.final_layer_norm.weight": "E",
    "model.decoder.final_layer_norm.bias": "E",
}
MIXTRAL = {
    "block_sparse_moe.gate.weight": "X, E",
    "block_sparse_moe.experts.{}.w1.weight": "F, E",
    "block_sparse_moe.experts.{}.w2.weight": "E, F",
    "block_sparse_moe.experts.{}.w3.weight": "F, E",
}
QWEN3_MOE = {
    "mlp.gate.weight": "X, E",
    "mlp.experts.{}.gate_proj.weight": "F, E",
    "mlp.experts.{}.up_proj.weight": "F, E",
    "mlp.experts.{}.down_proj.weight": "E, F",
}
GPT2_REFUSED = ("add_cross_attention", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn")

FAMILIES: dict[str, Served] = {
    "gpt2": Served(
        "gpt2.py",
        "gpt2.py",
        GPT2 | ENDS | {"transformer.wpe.weight": "P, E"},
        keys=dict.fromkeys(GPT2_REFUSED, False),
    ),
    "gpt-j": Served(
        "gpt_j.py",
        "gpt_j.py",
        GPT_J | ENDS,
        head=HEAD | {"lm_head.bias": "V"},
        keys={"tie_word_embeddings": False},
    ),
    "gpt-neox": Served(
        "transformers/causal.py",
        "transformers.py",
        GPT_NEOX | NEOX_ENDS,
        head={"embed_out.weight": "V, E"},
    ),
    "opt": Served("opt.py", "opt.py", OPT | OPT_ENDS),
    "llama": Served("llama.py", "llama.py", model(NORMS, ATTENTION, GATED)),
    "mistral": Served("mistral.py", "mistral.py", model(NORMS, ATTENTION, GATED)),
    "phi-3": Served("phi3.py", "llama.py", model(NORMS, FUSED)),
    "qwen2": Served("qwen2.py", "qwen2.py", model(NORMS, ATTENTION, QKV_BIAS, GATED)),
    "qwen3": Served("qwen3.py", "qwen3.py", model(NORMS, ATTENTION, QK_NORM, GATED)),
    "olmo2": Served(
        "transformers/causal.py",
        "olmo2.py",
        model(
            {"post_attention_layernorm.weight": "E", "post_feedforward_layernorm.weight": "E"},
            ATTENTION,
            {"self_attn.q_norm.weight": "H * D", "self_attn.k_norm.weight": "K * D"},
            GATED,
        ),
    ),
    "gemma2": Served("gemma2.py", "gemma2.py", model(NORMS, AROUND, ATTENTION, GATED), head={}),
    "gemma3": Served(
        "gemma3.py", "gemma3_causal.py", model(NORMS, AROUND, ATTENTION, QK_NORM, GATED)
    ),
    "mixtral": Served("mixtral.py", "mixtral.py", model(NORMS, ATTENTION, MIXTRAL)),
    "qwen3-moe": Served(
        "qwen3_moe.py", "qwen3_moe.py", model(NORMS, ATTENTION, QK_NORM, QWEN3_MOE)
    ),
}
INNER = ("moe_intermediate_size", "ffn_dim", "n_inner", "intermediate_size")
EXPERTS = ("num_experts", "num_local_experts")


def sizes(config: Any) -> dict[str, int]:
    """Return the sizes that shapes are written in, of a config.json as transformers reads it."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    inner = next((x for name in INNER if (x := getattr(config, name, None))), 4 * hidden)
    return {
        "E": hidden,
        "F": inner,
        "H": heads,
        "K": keys,
        "D": getattr(config, "head_dim", None) or hidden // heads,
        "V": config.vocab_size,
        "P": config.max_position_embeddings,
        "X": next((x for name in EXPERTS if (x := getattr(config, name, None))), 0),
    }


def expected(family: str, config: Any) -> dict[str, tuple[int, ...]]:
    """Return name, {} for a number -> shape, of what both servers take of a model of these sizes."""
    served, letters = FAMILIES[family], sizes(config)
    names = served.tensors | ({} if config.tie_word_embeddings else served.head)
    return {name: eval(f"({shape},)", {}, letters) for name, shape in names.items()}


def with_braces(name: str) -> str:
    """Return the name of a tensor without the numbers of its layer and expert."""
    return re.sub(r"\.\d+(?=\.)", ".{}", name)
