"""Sizes of small language models whose parts go together as no rule of table.py says: by the beginning of a class's name."""

from __future__ import annotations

from typing import Any

TOGETHER: dict[str, dict[str, Any]] = {
    "CpmAnt": {"init_std": 0.1},  # by its own 1, one word takes all of a token's attention
    "Dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 64, "ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "BailingHybrid": {"num_expert_group": 2, "topk_group": 1, "linear_head_dim": 16, "linear_num_heads": 4},
    "CohereCompass": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "LongcatFlash": {"head_dim": 8, "zero_expert_num": 2, "moe_topk": 2},
    "Musicgen": {"num_codebooks": 1},  # of several, rows of one batch are those of one example
    "Qwen4Exp": {
        "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 16,
        "indexer_compress_ratio": 4, "hc_lowrank": 12,
    },
    "XLMWith": {"causal": True},  # it writes texts so alone
    "ZambaFor": {
        "layers_block_type": ["hybrid", "hybrid"], "attention_hidden_size": 128, "attention_head_dim": 32,
        "num_key_value_heads": 4, "mamba_dt_rank": 4, "mamba_d_state": 8,
    },
    "Zaya": {"num_experts_per_tok": 1, "router_hidden_size": 24},
}  # fmt: skip
