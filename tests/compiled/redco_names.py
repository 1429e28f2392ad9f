"""The names that the parameters of the zoo have in Flax, or in the Flax models of transformers."""

ENDS = {"t": "embed_tokens/embedding", "u": "lm_head/kernel"}
DENSE = {"i": "Dense_0/kernel", "o": "Dense_1/kernel"}
QKVO = {name: f"self_attn/{name}_proj/kernel" for name in "qkvo"}
BLOCK = QKVO | {"up": "mlp/up_proj/kernel", "down": "mlp/down_proj/kernel"}
DECODER = {"table": "embed_tokens/embedding", "head": "lm_head/kernel"}
BERT = {
    **{"w0": "word_embeddings/embedding", "w1": "token_type_embeddings/embedding"},
    **{"w2": "position_embeddings/embedding", "t": "predictions/transform/dense/kernel"},
    **{"pool": "pooler/dense/kernel", "classes": "classifier/kernel"},
    **{"stack/*/m1": "attention/self/query/kernel", "stack/*/m2": "attention/self/key/kernel"},
    **{"stack/*/m3": "attention/self/value/kernel", "stack/*/m4": "attention/output/dense/kernel"},
    **{"stack/*/m5": "intermediate/dense/kernel", "stack/*/m6": "output/dense/kernel"},
}
T5_ATTENTION = {old: f"attention/{new}/kernel" for old, new in zip("abcd", "qkvo", strict=True)}
T5 = T5_ATTENTION | {"wi": "DenseReluDense/wi/kernel", "wo": "DenseReluDense/wo/kernel"}
GPT2_ENDS = {"wte": "wte/embedding", "wpe": "wpe/embedding"}
GPT2 = {
    **{"qkv": "attn/c_attn/kernel", "proj": "attn/c_proj/kernel"},
    **{"fc": "mlp/c_fc/kernel", "out": "mlp/c_proj/kernel"},
}
LLAMA = {
    **{old: f"self_attn/{new}_proj/kernel" for old, new in zip("1234", "qkvo", strict=True)},
    **{"5": "mlp/gate_proj/kernel", "6": "mlp/up_proj/kernel", "7": "mlp/down_proj/kernel"},
}
FUSED = {
    **{"t": "embed_tokens/embedding", "qkv": "self_attn/qkv_proj/kernel"},
    **{"o": "self_attn/o_proj/kernel", "gu": "mlp/gate_up_proj/kernel"},
    "dn": "mlp/down_proj/kernel",
}
BLOOM = {
    **{"t": "word_embeddings/embedding", "qkv": "self_attention/query_key_value/kernel"},
    **{"o": "self_attention/dense/kernel", "up": "mlp/dense_h_to_4h/kernel"},
    "dn": "mlp/dense_4h_to_h/kernel",
}
VISION = {name: f"self_attn/{name}_proj/kernel" for name in "qkv"} | {
    **{"o": "self_attn/out_proj/kernel", "i": "mlp/fc1/kernel", "j": "mlp/fc2/kernel"},
}
UNET = {
    **{"first": "conv_in/kernel", "half": "downsamplers/conv/kernel", "last": "conv_out/kernel"},
    **{"t1": "time_embedding/linear_1/kernel", "t2": "time_embedding/linear_2/kernel"},
    **{name: f"attn1/to_{name}/kernel" for name in "qkv"},
    **{"o": "attn1/to_out_0/kernel", "*/k1": "conv1/kernel", "*/k2": "conv2/kernel"},
    **{"*/t": "time_emb_proj/kernel", "*/skip": "conv_shortcut/kernel"},
}
MOE = {"l/*/r": "router/kernel", "l/*/i": "experts/wi/kernel", "l/*/o": "experts/wo/kernel"}
MLA = {
    **{"qa": "q_a_proj", "qb": "q_b_proj", "kva": "kv_a_proj", "kvb": "kv_b_proj", "o": "o_proj"},
}
MAMBA = {"in": "in_proj", "c": "conv1d", "xp": "x_proj", "dt": "dt_proj", "out": "out_proj"}
LORA = QKVO | {
    **{f"{name}{part}": f"self_attn/{name}_lora_{part}/kernel" for name in "qkvo" for part in "ab"},
    **{"i": "mlp/fc_in/kernel", "ia": "mlp/fc_in_lora_a/kernel", "ib": "mlp/fc_in_lora_b/kernel"},
    "j": "mlp/fc_out/kernel",
}


def under(prefix: str, names: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}/{old}": new for old, new in names.items()}


NAMES = {
    **dict.fromkeys(("mlp", "transposed"), {"a": "Dense_0/kernel", "c": "Dense_1/kernel"}),
    **dict.fromkeys(("own_derivatives", "branches", "loops"), DENSE),
    **dict.fromkeys(("inner_gradient", "on_devices"), DENSE),
    "scanned": DECODER | under("layers", BLOCK),
    "unrolled": DECODER | under("layers/*", BLOCK),
    "dense_general": {
        **{"t": "embed/embedding", "p": "position_embed/embedding"},
        **{"x": "attention/query/kernel", "y": "attention/key/kernel"},
        **{"z": "attention/value/kernel", "w": "attention/out/kernel"},
    },
    "encoder": BERT,
    "encoder_decoder": {"both": "shared/embedding"}
    | {old: "attention/relative_attention_bias/embedding" for old in ("far", "near")}
    | under("left/*", T5)
    | under("right/*", T5)
    | under("right/*/x", T5_ATTENTION),
    "gpt2": GPT2_ENDS | under("h", GPT2),
    **dict.fromkeys(("gpt2_unrolled", "gpt2_apart"), GPT2_ENDS | under("h/*", GPT2)),
    "llama": ENDS | under("l/*", LLAMA),
    **dict.fromkeys(("fused", "fused_apart"), FUSED),
    "alibi": BLOOM,
    "vit": {"stem": "patch_embeddings/projection/kernel", "top": "classifier/kernel"}
    | under("b/*", VISION),
    "clip": under("eye/b", VISION)
    | under("read/b", VISION)
    | {"eye/stem": "patch_embedding/kernel", "eye/to": "visual_projection/kernel"}
    | {"read/t": "token_embedding/embedding", "read/at": "position_embedding/embedding"}
    | {"read/to": "text_projection/kernel"},
    "whisper": {"c1": "conv1/kernel", "c2": "conv2/kernel", "t": "embed_tokens/embedding"}
    | {"at": "embed_positions/embedding"}
    | under("[edc]", VISION),
    "unet": UNET,
    "convnet": {"a": "conv_stem/kernel", "z": "classifier/kernel"}
    | {f"b/*/{i}": f"conv_{i}/kernel" for i in "123"},
    **dict.fromkeys(("moe_dense", "moe_chosen", "moe_capacity", "moe_ragged"), ENDS | MOE),
    "mla": ENDS | {f"l/*/{old}": f"self_attn/{new}/kernel" for old, new in MLA.items()},
    **dict.fromkeys(
        ("mamba", "mamba_apart"),
        ENDS | {f"l/*/{old}": f"mixer/{new}/kernel" for old, new in MAMBA.items()},
    ),
    "lora": ENDS | under("l/*", LORA),
    "square": {"k/*": "dense/kernel"},
    "recurrent": {
        **{"wz": "GRUCell_0/iz/kernel", "wh": "GRUCell_0/in/kernel", "out": "Dense_0/kernel"},
        **{"uz": "GRUCell_0/hz/kernel", "uh": "GRUCell_0/hn/kernel"},
    },
    **{"linen": {}, "nnx": {}},  # They have Flax's names already.
}
