"""OPT: 350m norms after each sum, and has tokens of fewer features than the residual stream."""

from dataclasses import dataclass
from typing import Any

from redco_new.models.family import CAUSAL, ActivationQuirks, Family, Settings, Size
from redco_new.models.hf_config import check_equal, read_activation, read_keys
from redco_new.models.tiny import tiny_heads, tiny_vocab
from redco_new.render.values import Name

KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "hidden_size",
    "mlp_dim": "ffn_dim",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "max_positions": "max_position_embeddings",
}

DEFAULTS: dict[str, Any] = {  # of transformers' OPTConfig
    **{"vocab_size": 50272, "hidden_size": 768, "word_embed_proj_dim": 768, "ffn_dim": 3072},
    **{"num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 2048},
    **{"activation_function": "relu", "do_layer_norm_before": True, "enable_bias": True},
    **{"_remove_final_layer_norm": False, "layer_norm_elementwise_affine": True},
    **{"dropout": 0.1, "attention_dropout": 0.0, "layerdrop": 0.0, "init_std": 0.02},
    **{"bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1},
    **{"tie_word_embeddings": True, "use_cache": True},
}


@dataclass(frozen=True)
class OPTQuirks(ActivationQuirks):
    """What the template depends on besides sizes.

    pre_norm: whether each layer norms its input, and a norm follows the last one, or its output.
    rows: of ROWS in templates/models/opt: whether the table of tokens has as many features as the
        residual stream.
    """

    pre_norm: bool
    rows: Name

    @property
    def layer(self) -> str:
        """Which of LAYERS in shared/layers.jinja a layer is."""
        return "pre_norm" if self.pre_norm else "post_norm"

    @property
    def norm(self) -> str:
        """The function that norms what the last layer gives; "" where none does."""
        return "_norm" if self.pre_norm else ""

    @property
    def end(self) -> str:
        """What hidden states come out of last."""
        return "norm" if self.pre_norm else "layer"


def _read(config: Any) -> Settings:
    check_equal(
        config,
        tie_word_embeddings=True,
        enable_bias=True,
        layer_norm_elementwise_affine=True,
        _remove_final_layer_norm=False,
    )
    projected = config.word_embed_proj_dim != config.hidden_size
    token_dim = {"token_dim": config.word_embed_proj_dim} if projected else {}
    quirks = OPTQuirks(
        activation=read_activation(config, "activation_function"),
        pre_norm=config.do_layer_norm_before,
        rows="projected" if projected else "whole",
    )
    sizes = read_keys(config, KEYS) | token_dim
    return Settings(sizes, quirks, config.max_position_embeddings)


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    heads, _ = tiny_heads(config.num_attention_heads, config.num_attention_heads, shards)
    projected = config.word_embed_proj_dim != config.hidden_size
    return {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "hidden_size": 16 * heads,
        "word_embed_proj_dim": (8 if projected else 16) * heads,
        "ffn_dim": 64 * heads,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "max_position_embeddings": 256,
    }


def _size(name: str, layers: int, heads: int, embed_dim: int, **quirks: Any) -> Size:
    dims = {"hidden_size": embed_dim, "word_embed_proj_dim": embed_dim, "ffn_dim": 4 * embed_dim}
    counts = {"num_hidden_layers": layers, "num_attention_heads": heads}
    return Size(dims | counts | quirks, f"facebook/opt-{name}")


FAMILY = Family(
    name="opt",
    title="OPT",
    model_type="opt",
    architecture="OPTForCausalLM",
    template="opt",
    model_class="OPT",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    sizes={  # Zhang et al. 2022, table 1
        "125m": _size("125m", 12, 12, 768),
        "350m": _size("350m", 24, 16, 1024, word_embed_proj_dim=512, do_layer_norm_before=False),
        "1.3b": _size("1.3b", 24, 32, 2048),
        "2.7b": _size("2.7b", 32, 32, 2560),
        "6.7b": _size("6.7b", 32, 32, 4096),
        "13b": _size("13b", 40, 40, 5120),
        "30b": _size("30b", 48, 56, 7168),
        "66b": _size("66b", 64, 72, 9216),
    },
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=OPTQuirks,
    dropout={"residual": "dropout", "weights": "attention_dropout"},
)
