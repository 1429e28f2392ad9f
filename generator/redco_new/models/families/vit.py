"""ViT, with a classifier on its class token."""

from typing import Any

from redco_new.models.family import ActivationQuirks, Family, IMAGES, Settings, Size
from redco_new.models.hf_config import check_equal, read_activation, read_keys
from redco_new.models.tiny import tiny_heads

KEYS = {
    "image_size": "image_size",
    "patch_size": "patch_size",
    "num_channels": "num_channels",
    "num_classes": "num_labels",
    "embed_dim": "hidden_size",
    "mlp_dim": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "layer_norm_epsilon": "layer_norm_eps",
}
CLASSES = 1000  # of ImageNet

DEFAULTS: dict[str, Any] = {  # of transformers' ViTConfig
    **{"image_size": 224, "patch_size": 16, "num_channels": 3, "qkv_bias": True},
    **{"hidden_size": 768, "intermediate_size": 3072, "hidden_act": "gelu"},
    **{"num_hidden_layers": 12, "num_attention_heads": 12, "layer_norm_eps": 1e-12},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    **{"initializer_range": 0.02, "encoder_stride": 16},
    **{"pooler_output_size": 768, "pooler_act": "tanh"},
}


def _read(config: Any) -> Settings:
    check_equal(config, qkv_bias=True)
    quirks = ActivationQuirks(read_activation(config, "hidden_act"))
    return Settings(read_keys(config, KEYS), quirks, sequence_length=0)


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    heads, _ = tiny_heads(config.num_attention_heads, config.num_attention_heads, shards)
    return {
        "image_size": 16,
        "patch_size": 4,
        "num_labels": shards * -(-10 // shards) + bool(config.num_labels % shards),
        "hidden_size": 8 * heads,
        "intermediate_size": 32 * heads,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
    }


def _size(embed_dim: int, layers: int, heads: int, **others: int) -> dict[str, Any]:
    sizes = {"hidden_size": embed_dim, "intermediate_size": 4 * embed_dim}
    counts = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_labels": CLASSES}
    return sizes | counts | others


FAMILY = Family(
    name="vit",
    title="ViT",
    model_type="vit",
    architecture="ViTForImageClassification",
    template="vit",
    model_class="ViT",
    recipes=("image",),
    provides=IMAGES,
    sizes={  # Dosovitskiy et al. 2021, table 1
        "base-16": Size(_size(768, 12, 12), "google/vit-base-patch16-224"),
        "large-16": Size(_size(1024, 24, 16), "google/vit-large-patch16-224"),
        # Its checkpoint was trained on other classes, and holds no classifier.
        "huge-14": Size(_size(1280, 32, 16, patch_size=14), "google/vit-huge-patch14-224-in21k"),
    },
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=ActivationQuirks,
    modules={
        "encoder.layer.": "layers.",
        **{f"attention.attention.{w}": f"attention.{w[0]}_proj" for w in ("query", "key", "value")},
        "attention.output.dense": "attention.o_proj",
        **{"intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2"},
    },
    dropout={
        **dict.fromkeys(("embed", "residual"), "hidden_dropout_prob"),
        "weights": "attention_probs_dropout_prob",
    },
)
