"""Which dim of each parameter an expert splits over `model`: Megatron's plan, written by hand.

A parameter that is not named is whole on every device.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import jax
from jax.sharding import PartitionSpec as P


def dims(**named: str) -> dict[str, int]:
    """{name: dim} of names listed by dim: first="o down", second="q up"."""
    order = ("first", "second", "third", "fourth")
    return {name: order.index(dim) for dim, names in named.items() for name in names.split()}


def under(prefix: str, plan: dict[str, int]) -> dict[str, int]:
    return {f"{prefix}/{name}": dim for name, dim in plan.items()}


def stacked(plan: dict[str, int]) -> dict[str, int]:
    """The plan of layers that a scan keeps in one array: their dims come one later."""
    return {name: dim + 1 for name, dim in plan.items()}


BLOCK = dims(first="o down up_bias", second="q k v up")
BERT = dims(first="m4 m6 c1 c2 c3 c5", second="m1 m2 m3 m5")
T5_ATTENTION = dims(first="d", second="a b c")
T5 = T5_ATTENTION | dims(first="wo", second="wi")
GPT2 = dims(first="proj out qkv_b fc_b", second="qkv fc")
LLAMA = dims(first="1 2 3 5 6", second="4 7")
FUSED = dims(first="t o dn", second="qkv gu")
VISION = dims(first="o j", second="q k v i")
RESIDUAL = dims(first="n2", second="t", third="k2", fourth="k1")
ENDS = dims(first="t", second="u")
EXPERTS = dims(first="i o")
MLA = dims(first="o", second="qb kvb")
MAMBA = dims(first="cb xp dtb a skip out", second="in dt", third="c")
LORA = dims(first="o j oa", second="q k v i qb kb vb ib")
MLP = dims(first="o", second="i")
PROJECTIONS = "query/kernel key/kernel value/kernel"
ATTENTION = dims(second=PROJECTIONS, first="out/kernel query/bias key/bias value/bias")
LINEN = under("MultiHeadDotProductAttention_0", ATTENTION)
LINEN |= dims(first="Dense_0/bias Dense_1/kernel", second="Dense_0/kernel")
NNX = under("two", ATTENTION) | dims(first="back/kernel", second="gate/bias", third="gate/kernel")

HAND = {
    "mlp": dims(first="b c", second="a"),
    "transposed": dims(first="a b", second="c"),
    "scanned": dims(first="table", second="head") | under("layers", stacked(BLOCK)),
    "unrolled": dims(first="table", second="head") | under("layers/*", BLOCK),
    "dense_general": dims(first="t w", second="x y z"),
    "encoder": dims(first="w0 tb") | under("stack/*", BERT),
    "encoder_decoder": dims(first="both", second="far near")
    | under("left/*", T5)
    | under("right/*", T5)
    | under("right/*/x", T5_ATTENTION),
    "gpt2": dims(first="wte") | under("h", stacked(GPT2)),
    "gpt2_unrolled": dims(first="wte") | under("h/*", GPT2),
    "gpt2_apart": dims(first="wte") | under("h/*", GPT2 | dims(second="qkv_b", third="qkv")),
    "llama": dims(first="t u") | under("l/*", LLAMA),
    "fused": FUSED,
    "fused_apart": FUSED | dims(third="qkv gu"),
    "alibi": dims(first="t b o dn", second="qkv up"),
    "vit": under("b/*", VISION),
    "clip": under("eye/b", VISION)
    | under("read/b", VISION)
    | dims(first="read/t", second="eye/to read/to"),
    "whisper": dims(first="t c1b", second="c2", third="c1") | under("[edc]", VISION),
    "unet": dims(first="o t2", second="q k v t1")
    | under("in", RESIDUAL)
    | under("down", RESIDUAL)
    | under("up", RESIDUAL),
    "convnet": under("b/*", dims(first="n", third="3", fourth="1 2")),
    "moe_dense": ENDS | under("l/*", EXPERTS),
    "moe_chosen": ENDS | under("l/*", EXPERTS),
    "moe_capacity": ENDS | under("l/*", EXPERTS),
    "moe_ragged": ENDS | under("l/*", dims(second="o", third="i")),
    "mla": ENDS | under("l/*", MLA),
    "mamba": ENDS | under("l/*", MAMBA),
    "mamba_apart": ENDS | under("l/*", MAMBA | dims(third="in c")),
    "lora": ENDS | under("l/*", LORA),
    "square": dims(second="k/*"),
    "recurrent": dims(first="out", second="wz wh uz uh"),
    "own_derivatives": MLP,
    "branches": MLP,
    "loops": MLP,
    "inner_gradient": MLP,
    "on_devices": {},
    "linen": dims(first="Embed_0/embedding") | under("ScanCheckpointLinenBlock_0", stacked(LINEN)),
    "nnx": dims(first="table/embedding head/bias", second="head/kernel") | under("blocks/*", NNX),
}


def path(keys: tuple) -> str:
    """The path of a leaf as text: "l/0/q"."""
    return jax.tree_util.keystr(keys, simple=True, separator="/")


def hand_specs(name: str, params: dict) -> dict:
    """The hand-written PartitionSpecs of a model: a tree of the structure of `params`."""
    plan = HAND[name]

    def spec(keys, leaf):
        found = [dim for pattern, dim in plan.items() if matches(path(keys), pattern)]
        return P(*(None,) * found[0], "model") if found else P()

    return jax.tree_util.tree_map_with_path(spec, params)


def matches(name: str, pattern: str) -> bool:
    """Part by part, so that * is one part of a path."""
    parts, patterns = name.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
