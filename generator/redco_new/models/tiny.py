"""Sizes of tiny models that divide by the shards where those of the full model do."""

import math

BYTES = 384  # tokens of the tokenizer "bytes": 3 special ones, 256 bytes and 125 that fill up


def tiny_vocab(vocab_size: int, shards: int) -> int:
    """Tokens: BYTES or a few more."""
    divided = shards * -(-BYTES // shards)
    return divided + bool(vocab_size % shards)


def tiny_heads(num_heads: int, num_kv_heads: int, shards: int) -> tuple[int, int]:
    """(heads, key/value heads): as many for each other as in the full model, or two."""
    common, kv_heads = math.gcd(num_heads, shards), math.gcd(num_kv_heads, shards)
    same = num_heads == num_kv_heads
    heads = math.lcm(8 if same else 2 * kv_heads, common)
    if num_heads % shards and heads % shards == 0:
        heads += common
    return heads, heads if same else kv_heads


def tiny_mlp(mlp_dim: int, embed_dim: int, shards: int) -> int:
    """Features inside the MLP of a tiny model: four times the others, or a few more."""
    return 4 * embed_dim if mlp_dim % shards else shards * -(-4 * embed_dim // shards)
