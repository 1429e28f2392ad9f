"""The layout of each model of the zoo: what a Megatron expert would write by hand."""

import functools

import jax
import pytest
from jax.sharding import PartitionSpec as P
from sharding.models import ZOO
from sharding import zoo_text
from sharding.zoo import IDS, shapes

from redco_plan import plan_sharding

COLUMNS, ROWS = P("fsdp", "model"), P("model", "fsdp")
SPLIT, WHOLE, KEPT = P("model"), P(None), P(None, "fsdp")
ENDS = {"t": ROWS, "u": COLUMNS}


@functools.cache
def plan_of(name, model=4):
    return plan_sharding(*ZOO[name], {"model": model})


def spec_of(name, model=4):
    """{path: spec} of every parameter."""
    plan = plan_of(name, model)
    return dict(zip((p.path for p in plan.parameters), plan.partitions, strict=True))


def reasons_of(name, model=4):
    return {row["path"]: row["reason"] for row in plan_of(name, model).rows()}


def kernels(columns, rows, prefix=""):
    """Specs of kernels, by the names in two strings."""
    return {prefix + name: COLUMNS for name in columns.split()} | {
        prefix + name: ROWS for name in rows.split()
    }


def stacked(specs):
    return {path: P(None, *spec) for path, spec in specs.items()}


GPT2 = kernels("qkv fc", "proj out") | {"qkv_b": SPLIT, "fc_b": SPLIT, "n": WHOLE, "proj_b": WHOLE}
VISION_BLOCK = kernels("q k v i", "o j") | {"n": WHOLE}
PATCHES = {"stem": P(None, None, None, "fsdp"), "stem_b": WHOLE, "place": KEPT}
EXPERTS = {"l/0/i": P("model", "fsdp", None), "l/0/o": P("model", None, "fsdp")}


def under(prefix, specs):
    return {f"{prefix}/{path}": spec for path, spec in specs.items()}


EXPERT = {
    "encoder": {"w0": ROWS, "w1": KEPT, "w2": KEPT, "tb": SPLIT, "g0": WHOLE}
    | under("stack/1", kernels("m1 m2 m3 m5", "m4 m6"))
    | under("stack/1", {"c1": SPLIT, "c2": SPLIT, "c3": SPLIT, "c5": SPLIT, "c4": WHOLE}),
    "encoder_decoder": {"both": ROWS, "far": COLUMNS, "near": COLUMNS}
    | under("left/0", kernels("a b c wi", "d wo"))
    | under("right/0", kernels("a b c wi", "d wo"))
    | under("right/0/x", kernels("a b c", "d")),
    "gpt2": {"wte": ROWS, "wpe": KEPT, "n": WHOLE} | under("h", stacked(GPT2)),
    "gpt2_unrolled": {"wte": ROWS, "wpe": KEPT, "n": WHOLE} | under("h/1", GPT2),
    "llama": {"t": ROWS, "u": ROWS, "l/0/n": WHOLE}
    | under("l/0", {"1": ROWS, "2": KEPT, "3": KEPT, "4": COLUMNS})
    | under("l/1", {"5": ROWS, "6": ROWS, "7": COLUMNS}),
    "fused": {"t": ROWS} | kernels("qkv gu", "o dn"),
    "alibi": {"t": ROWS, "b": SPLIT} | kernels("qkv up", "o dn"),
    "vit": PATCHES | under("b/1", VISION_BLOCK) | {"top": COLUMNS, "n": WHOLE},
    "clip": under("eye", PATCHES | under("b", VISION_BLOCK))
    | under("read", under("b", VISION_BLOCK) | {"t": ROWS, "at": KEPT}),
    "whisper": {"t": ROWS, "at": KEPT, "c1b": SPLIT, "c2b": WHOLE}
    | {"c1": P(None, *COLUMNS), "c2": P(None, *ROWS)}
    | under("e", VISION_BLOCK)
    | under("d", VISION_BLOCK)
    | under("c", VISION_BLOCK),
    "unet": kernels("q k v t1", "o t2")
    | {"down/k1": P(None, None, *COLUMNS), "down/k2": P(None, None, *ROWS)}
    | {"down/t": COLUMNS, "down/n1": WHOLE, "down/n2": SPLIT},
    "convnet": {"b/0/1": P(None, None, *COLUMNS), "b/0/3": P(None, None, *ROWS)}
    | {"b/0/2": P(None, None, None, "model"), "b/0/n": SPLIT, "n": WHOLE},
    "moe_dense": ENDS | EXPERTS | {"l/0/r": COLUMNS},
    "moe_chosen": ENDS
    | {"l/0/i": P(None, *COLUMNS), "l/0/o": P(None, *ROWS), "l/0/r": P("fsdp", None)},
    "moe_capacity": ENDS | EXPERTS | {"l/0/r": COLUMNS},
    "moe_ragged": ENDS | {"l/0/i": P(None, *COLUMNS), "l/0/o": P(None, *ROWS)},
    "mla": ENDS | under("l/0", kernels("qb kvb", "o") | {"qa": P("fsdp", None), "kn": WHOLE}),
    "mamba": ENDS
    | under("l/0", kernels("in dt", "out xp a") | {"c": P(None, None, "model")})
    | under("l/0", dict.fromkeys(("cb", "dtb", "skip"), SPLIT)),
    "lora": ENDS
    | under("l/0", kernels("q k v i qb kb vb ib", "o j oa"))
    | under("l/0", dict.fromkeys(("qa", "ka", "va", "ia"), P("fsdp", None)) | {"ob": KEPT}),
    "square": {"k/0": COLUMNS, "k/1": COLUMNS},
    "recurrent": kernels("wz wh", "uz uh out"),
    "own_derivatives": kernels("i", "o"),
    "branches": kernels("i", "o"),
    "loops": kernels("i", "o"),
    "inner_gradient": kernels("i", "o"),
    "linen": {"Embed_0/embedding": ROWS}
    | under("ScanCheckpointLinenBlock_0", stacked({"Dense_0/kernel": COLUMNS}))
    | under("ScanCheckpointLinenBlock_0", stacked({"Dense_1/kernel": ROWS}))
    | under(
        "ScanCheckpointLinenBlock_0/MultiHeadDotProductAttention_0",
        {"query/kernel": P(None, *COLUMNS, None), "out/kernel": P(None, "model", None, "fsdp")},
    ),
    "nnx": {"table/embedding": ROWS, "head/kernel": COLUMNS, "head/bias": SPLIT}
    | under("blocks/1", {"gate/kernel": P("fsdp", None, "model"), "back/kernel": ROWS})
    | under("blocks/1/two", {"value/kernel": P("fsdp", "model", None), "out/bias": WHOLE}),
}


@pytest.mark.parametrize("name", EXPERT)
def test_the_layout_is_an_experts(name):
    specs = spec_of(name)
    assert {path: specs[path] for path in EXPERT[name]} == EXPERT[name]


def test_every_model_has_an_experts_layout():
    elsewhere = {"mlp", "transposed", "scanned", "unrolled", "dense_general"}  # test_plan.py
    users_own = {"on_devices"}
    assert EXPERT.keys() == ZOO.keys() - elsewhere - users_own


def test_unrolled_layers_are_all_laid_out_alike():
    for name in ("encoder", "gpt2_unrolled", "llama", "vit", "nnx"):
        (layers,) = [v for v in plan_of(name).specs.values() if isinstance(v, list | dict)][:1]
        layers = layers if isinstance(layers, list) else [layers[k] for k in sorted(layers)]
        assert all(layer == layers[0] for layer in layers[1:])


def test_scanned_layers_are_laid_out_as_unrolled_ones():
    scanned, unrolled = plan_of("gpt2"), plan_of("gpt2_unrolled")
    assert scanned.specs["h"] == stacked(unrolled.specs["h"][0])
    assert scanned.dims["h"] == {k: ("layers", *v) for k, v in unrolled.dims["h"][0].items()}


def test_kv_heads_are_split_where_they_divide_and_copied_where_they_do_not():
    specs, reasons = spec_of("llama", 2), reasons_of("llama", 4)
    assert {specs[f"l/0/{name}"] for name in "123"} == {ROWS}
    assert reasons["l/0/2"] == (
        "whole: kv_heads is not split: 2 does not divide by 4; "
        "each device copies the heads that it needs"
    )


def test_heads_that_do_not_divide_leave_the_rest_split():
    reason = "whole: heads is not split: 4 does not divide by 3"
    specs, reasons = spec_of("encoder", 3), reasons_of("encoder", 3)
    assert {reasons[f"stack/0/{name}"] for name in ("m1", "m2", "m3", "m4", "c1")} == {reason}
    assert specs["w0"] == ROWS


def test_the_residual_stream_is_split_if_nothing_else_can_be():
    def forward(p, batch):
        x = p["t"][batch["ids"]]
        return x + jax.nn.relu(x @ p["i"]) @ p["o"]

    plan = plan_sharding(forward, shapes(t=(85, 8), i=(8, 6), o=(6, 8)), IDS, {"model": 4})
    assert plan.specs == {"t": P("fsdp", "model"), "i": ROWS, "o": COLUMNS}


@pytest.mark.parametrize(
    ("name", "path", "reason"),
    [
        ("gpt2", "h/qkv", "columns: makes fused; its parts end elsewhere than the shards"),
        ("fused", "qkv", "columns: makes fused; its parts end elsewhere than the shards"),
        ("fused", "gu", "columns: makes fused; its parts end elsewhere than the shards"),
        ("alibi", "qkv", "columns: makes heads, which o contracts"),
        ("square", "k/0", "columns: makes inner; gathered right after, since the output is embed"),
        ("moe_dense", "l/0/i", "experts: each device holds its own"),
        ("gpt2", "wpe", "whole: positions is not split: 2050 does not divide by 4"),
        ("encoder", "w1", "whole: positions is not split: 2 does not divide by 4"),
        ("encoder", "w2", "whole: positions is not split: a short table costs less to keep"),
        ("encoder", "tb", "follows vocab, which w0 makes"),
    ],
)
def test_the_reason_says_what_is_done(name, path, reason):
    assert reasons_of(name)[path].startswith(reason)


@pytest.mark.parametrize(
    ("name", "path", "dims"),
    [
        ("gpt2", "h/qkv", ("layers", "embed", "fused")),
        ("gpt2", "wpe", ("positions", "embed")),
        ("llama", "l/0/2", ("kv_heads", "embed")),
        ("moe_capacity", "l/0/i", ("experts", "embed", "mlp")),
        ("moe_chosen", "l/0/i", ("experts", "embed", "mlp")),
        ("clip", "eye/b/q", ("embed", "heads")),
        ("clip", "read/b/q", ("embed", "heads")),
        ("convnet", "b/0/1", ("window", "window", "embed", "mlp")),
        ("mamba", "l/0/out", ("mlp", "embed")),
        ("vit", "place", ("positions", "embed")),
    ],
)
def test_labels_are_roles(name, path, dims):
    labels = jax.tree.leaves(plan_of(name).dims, is_leaf=lambda x: isinstance(x, tuple))
    paths = [p.path for p in plan_of(name).parameters]
    assert labels[paths.index(path)] == dims


def test_a_scale_of_rotated_heads_is_of_the_inside_of_a_head():
    def forward(p, batch):
        x = p["t"][batch["ids"]]
        q, k, v = (zoo_text.heads(x @ p[name]) for name in "qkv")
        q, k = (zoo_text.rotate(zoo_text.norm(y, p["scale"])) for y in (q, k))
        return zoo_text.joined(zoo_text.attend(q, k, v, zoo_text.causal())) @ p["o"] @ p["u"]

    D, V = zoo_text.D, zoo_text.V
    params = shapes(t=(V, D), q=(D, D), k=(D, D), v=(D, D), scale=(zoo_text.H,), o=(D, D), u=(D, V))
    plan = plan_sharding(forward, params, IDS, {"model": 2})
    assert plan.dims["scale"] == ("head_dim",) and plan.specs["scale"] == P(None)
