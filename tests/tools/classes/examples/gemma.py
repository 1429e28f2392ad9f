"""google-tunix: Gemma, annotated for a mesh of its own."""

import numpy as np
from tunix.models.gemma.model import AttentionType, ModelConfig


def example(width=64, heads=4, head=16, words=256, length=32):
    config = ModelConfig(
        num_layers=2, num_embed=words, embed_dim=width, hidden_dim=4 * width, num_heads=heads,
        head_dim=head, num_kv_heads=1, final_logit_softcap=None,
        use_post_attn_norm=False, use_post_ffw_norm=False,
        attention_types=(AttentionType.GLOBAL,) * 2,
    )  # fmt: skip
    ids, positions = np.zeros((1, length), np.int32), np.arange(length, dtype=np.int32)[None]
    mask = np.tril(np.ones((1, length, length), bool))
    call = {"last_tokens": ids, "positions": positions, "cache": None, "attention_mask": mask}
    return {"config": config}, call


def large():
    return example(2048, 8, 256, 32000, 512)
