"""Sizes of tiny models that divide by the shards where those of the full model do."""

import math

# Tokens of the tokenizer "bytes": 3 special ones, 256 bytes, and 125 that fill up to 3 * 128, which
# divides by every number of shards that is usual.
BYTES = 384


def tiny_vocab(vocab_size: int, shards: int) -> int:
    """Return a number of tokens: BYTES or a few more."""
    divided = shards * -(-BYTES // shards)
    return divided + bool(vocab_size % shards)


def tiny_heads(num_heads: int, num_kv_heads: int, shards: int) -> tuple[int, int]:
    """Return heads and key/value heads: as many for each other as in the full model, or two."""
    common, kv_heads = math.gcd(num_heads, shards), math.gcd(num_kv_heads, shards)
    same = num_heads == num_kv_heads
    # 8 heads, as many as the devices of a project's own tests; grouped heads in groups of two.
    heads = math.lcm(8 if same else 2 * kv_heads, common)
    if num_heads % shards and heads % shards == 0:
        heads += common
    return heads, heads if same else kv_heads


def tiny_mlp(mlp_dim: int, embed_dim: int, shards: int) -> int:
    """Return features inside the MLP of a tiny model: four times the others, or a few more.

    Where the full model's do not divide by the shards, nor do those: its layout is another.
    """
    return 4 * embed_dim if mlp_dim % shards else shards * -(-4 * embed_dim // shards)
