# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""What Hugging Face calls each parameter, and the config.json that goes with them."""

from typing import Any

from my_project.model import T5Config
from my_project.runtime.base.tensors import Tensor

PREFIX = ""
IGNORED = (  # tied copies, and one that T5 does not use
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
)
CONFIG = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "classifier_dropout": 0.0,
    "dense_act_fn": "gelu_new",
    "dropout_rate": 0.1,
    "feed_forward_proj": "gated-gelu",
    "initializer_factor": 1.0,
    "is_decoder": False,
    "is_encoder_decoder": True,
    "is_gated_act": True,
    "scale_decoder_outputs": False,
    "tie_word_embeddings": True,
    "use_cache": True,
}


def tensors(config: T5Config) -> dict[str, Tensor]:
    """Return path of a parameter -> the tensor that holds it."""
    return {
        "embed/embedding": Tensor("shared.weight"),
        # transformers 5 ties the tables of what it starts anew, and then saves one of them.
        "head/kernel": Tensor("lm_head.weight", order=(1, 0), otherwise="shared.weight"),
        "encoder_distance/embedding": Tensor(f"encoder.{_DISTANCE}"),
        "encoder_ln/scale": Tensor("encoder.final_layer_norm.weight"),
        **_attention("encoder/attn", "encoder.block.{}.layer.0", "SelfAttention"),
        **_mlp("encoder/mlp", "encoder.block.{}.layer.1"),
        "decoder_distance/embedding": Tensor(f"decoder.{_DISTANCE}"),
        "decoder_ln/scale": Tensor("decoder.final_layer_norm.weight"),
        **_attention("decoder/attn", "decoder.block.{}.layer.0", "SelfAttention"),
        **_attention("decoder/cross", "decoder.block.{}.layer.1", "EncDecAttention"),
        **_mlp("decoder/mlp", "decoder.block.{}.layer.2"),
    }


_DISTANCE = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def _attention(path: str, layer: str, kind: str) -> dict[str, Tensor]:
    rows = {f"{path}_ln/scale": Tensor(f"{layer}.layer_norm.weight")}
    for name in "qkvo":
        rows[f"{path}/{name}/kernel"] = Tensor(f"{layer}.{kind}.{name}.weight", order=(1, 0))
    return rows


def _mlp(path: str, layer: str) -> dict[str, Tensor]:
    rows = {f"{path}_ln/scale": Tensor(f"{layer}.layer_norm.weight")}
    for ours, theirs in {"gate": "wi_0", "up": "wi_1", "down": "wo"}.items():
        name = f"{layer}.DenseReluDense.{theirs}.weight"
        rows[f"{path}/{ours}/kernel"] = Tensor(name, order=(1, 0))
    return rows


def hf_config(config: T5Config) -> dict[str, Any]:
    """Return the config.json of a model of these sizes."""
    return CONFIG | {
        "vocab_size": config.vocab_size,
        "d_model": config.embed_dim,
        "d_ff": config.mlp_dim,
        "num_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "num_heads": config.num_heads,
        "d_kv": config.head_dim,
        "relative_attention_num_buckets": config.distance_buckets,
        "relative_attention_max_distance": config.max_distance,
        "layer_norm_epsilon": config.norm_epsilon,
        "decoder_start_token_id": config.start_id,
        "pad_token_id": config.pad_id,
        "eos_token_id": config.eos_id,
    }
