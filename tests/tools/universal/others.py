"""Classes of transformers that are no causal language models, and sizes by which they are small."""

from __future__ import annotations

from typing import Any

ENCODERS = """BertForMaskedLM RobertaForMaskedLM XLMRobertaForMaskedLM CamembertForMaskedLM ElectraForMaskedLM AlbertForMaskedLM
    DistilBertForMaskedLM MPNetForMaskedLM ModernBertForMaskedLM DebertaV2ForMaskedLM EsmForMaskedLM FNetForMaskedLM
    BertForSequenceClassification RobertaForSequenceClassification DistilBertForSequenceClassification
    ElectraForSequenceClassification MPNetForSequenceClassification ModernBertForSequenceClassification""".split()
PAIRS = """T5ForConditionalGeneration MT5ForConditionalGeneration BartForConditionalGeneration MBartForConditionalGeneration
    PegasusForConditionalGeneration MarianMTModel M2M100ForConditionalGeneration BlenderbotForConditionalGeneration
    PLBartForConditionalGeneration""".split()
IMAGES = """ViTForImageClassification DeiTForImageClassification BeitForImageClassification Dinov2ForImageClassification
    SwinForImageClassification ConvNextForImageClassification ConvNextV2ForImageClassification ResNetForImageClassification
    RegNetForImageClassification MobileNetV1ForImageClassification MobileNetV2ForImageClassification
    PoolFormerForImageClassification""".split()
SOUNDS = """Wav2Vec2ForSequenceClassification HubertForSequenceClassification WavLMForSequenceClassification
    ASTForAudioClassification WhisperForConditionalGeneration""".split()
# Class -> what it reads.
OTHERS = {
    **dict.fromkeys(ENCODERS, "text"),
    **dict.fromkeys(PAIRS, "text, text"),
    **dict.fromkeys(IMAGES, "image"),
    **dict.fromkeys(SOUNDS, "sound"),
}
# Sizes of a small model, where a config has these keys, in the place of those of table.py.
SMALL: dict[str, Any] = {
    "is_decoder": False, "d_ff": 128, "d_kv": 16, "num_heads": 4, "num_decoder_layers": 2, "encoder_layers": 2,
    "encoder_ffn_dim": 128, "encoder_attention_heads": 4, "embedding_size": 32, "dim": 64, "hidden_dim": 128,
    "image_size": 32, "patch_size": 8, "num_mel_bins": 16, "max_source_positions": 32, "max_target_positions": 64,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 32, "global_attn_every_n_layers": 2,
    "local_attention": 16,
}  # fmt: skip
# Where the parts of a config go together: by the beginning of its class's name.
TOGETHER: dict[str, dict[str, Any]] = {
    "Swin": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 2, "patch_size": 4, "image_size": 32},
    "ConvNext": {"hidden_sizes": [16, 32], "depths": [1, 2], "num_stages": 2, "patch_size": 4},
    "ResNet": {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 2]},
    "RegNet": {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 2], "groups_width": 16},
    "PoolFormer": {
        "hidden_sizes": [16, 32], "depths": [1, 2], "num_encoder_blocks": 2, "patch_sizes": [7, 3], "strides": [4, 2],
        "padding": [2, 1],
    },
    "Esm": {"vocab_size": 384, "pad_token_id": 1, "mask_token_id": 32},
    "MPNet": {"relative_attention_num_buckets": 32},  # as many as its code has
    "MobileNet": {"depth_multiplier": 0.25},
    "Wav": {"conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "classifier_proj_size": 32},
    "Hubert": {"conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "classifier_proj_size": 32},
    "AST": {"max_length": 64, "num_mel_bins": 32, "patch_size": 8, "frequency_stride": 4, "time_stride": 4},
}  # fmt: skip


def small_others(cls: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes of a small model of a class. arguments: those that table.py has for it"""
    fields = vars(cls.config_class())
    own = {key: value for key, value in SMALL.items() if fields.get(key) is not None}
    together = [sizes for name, sizes in TOGETHER.items() if cls.__name__.startswith(name)]
    apart = {key for key in ("num_key_value_heads", "head_dim") if key in arguments}
    chosen = {key: value for key, value in arguments.items() if key not in apart} | own
    return chosen | (together[0] if together else {})
