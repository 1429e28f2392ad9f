"""The layouts that the engine derives: those of an expert, and numerically harmless."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P
from sharding.zoo import BLOCK, ZOO, D, L, V, mlp, shapes

from redco_plan import plan_sharding

X_6 = jax.ShapeDtypeStruct((4, 6), jnp.float32)

EXPERT_BLOCK = {
    "scale": P(None),
    "q": P("fsdp", "model"),
    "k": P("fsdp", "model"),
    "v": P("fsdp", "model"),
    "o": P("model", "fsdp"),
    "o_bias": P(None),
    "up": P("fsdp", "model"),
    "up_bias": P("model"),
    "down": P("model", "fsdp"),
}
EXPERT_ENDS = {"table": P("model", "fsdp"), "head": P("fsdp", "model"), "final": P(None)}


def plan_of(name, **mesh):
    forward, params, batch = ZOO[name]
    return plan_sharding(forward, params, batch, mesh)


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_a_scanned_decoder_is_laid_out_as_megatron_does(shards):
    specs = plan_of("scanned", model=shards).specs
    assert {k: specs[k] for k in EXPERT_ENDS} == EXPERT_ENDS
    assert specs["layers"] == {name: P(None, *spec) for name, spec in EXPERT_BLOCK.items()}


def test_unrolled_layers_have_the_layout_of_scanned_ones():
    specs = plan_of("unrolled", model=4).specs
    assert {k: specs[k] for k in EXPERT_ENDS} == EXPERT_ENDS
    assert specs["layers"] == [EXPERT_BLOCK] * L


def test_columns_then_rows_whatever_the_layout_of_the_kernels():
    assert plan_of("mlp", model=4).specs == {
        "a": P("fsdp", "model"),
        "b": P("model"),
        "c": P("model", "fsdp"),
    }
    assert plan_of("transposed", model=4).specs == {
        "a": P("model", "fsdp"),
        "b": P("model"),
        "c": P("fsdp", "model"),
    }


def test_whole_heads_of_kernels_with_a_dim_for_them():
    plan = plan_of("dense_general", model=4)
    columns, rows = P("fsdp", "model", None), P("model", None, "fsdp")
    assert plan.specs == {
        "t": P("model", "fsdp"),
        "p": P(None, "fsdp"),
        **dict.fromkeys("xyz", columns),
        "w": rows,
    }
    assert plan.dims["x"] == ("embed", "heads", "head_dim")
    assert plan.dims["t"] == ("vocab", "embed")
    assert plan.dims["p"] == ("positions", "embed")


def test_dims_are_labelled_by_what_is_done_with_them():
    dims = plan_of("scanned", model=4).dims
    assert dims["table"] == ("vocab", "embed")
    assert dims["head"] == ("embed", "vocab")
    assert dims["layers"]["q"] == ("layers", "embed", "heads")
    assert dims["layers"]["down"] == ("layers", "mlp", "embed")


def test_a_class_that_does_not_divide_stays_whole_and_says_why():
    rows = {row["path"]: row for row in plan_of("scanned", model=3).rows()}
    assert rows["layers/q"]["spec"] == [None, "fsdp", None]
    assert rows["layers/q"]["reason"] == "whole: heads is not split: 4 does not divide by 3"
    assert rows["table"]["spec"] == ["model", "fsdp"]
    assert rows["table"]["shard_shape"] == [V // 3, D]


def test_fsdp_takes_another_dim_where_the_first_does_not_divide():
    plan = plan_sharding(mlp, shapes(a=(6, 8), b=(8,), c=(8, 6)), {"x": X_6}, {"fsdp": 4})
    assert plan.specs == {"a": P(None, "model"), "b": P("model"), "c": P("model", None)}


def test_rows_say_what_a_device_holds():
    (row,) = [r for r in plan_of("scanned", model=4).rows() if r["path"] == "layers/up"]
    assert row == {
        "path": "layers/up",
        "shape": [L, *BLOCK["up"]],
        "dtype": "float32",
        "dims": ["layers", "embed", "mlp"],
        "spec": [None, "fsdp", "model"],
        "stored_shape": [L, *BLOCK["up"]],
        "shard_shape": [L, D, BLOCK["up"][1] // 4],
        "bytes": 4 * L * D * BLOCK["up"][1],
        "reason": "columns: makes mlp, which down contracts",
    }


def test_an_unknown_primitive_is_named_and_its_arrays_stay_whole():
    def forward(params, batch):
        return jax.lax.linalg.cholesky(params["a"] @ params["a"].T) @ batch["x"].T

    plan = plan_sharding(
        forward, shapes(a=(D, D)), {"x": jax.ShapeDtypeStruct((4, D), "float32")}, {"model": 2}
    )
    assert any("cholesky" in warning and "test_plan.py" in warning for warning in plan.warnings)


@pytest.mark.parametrize(("channels", "shards", "warned"), [(8, 4, 0), (6, 4, 1), (6, 1, 0)])
def test_a_convolution_that_xla_gets_wrong_is_named(channels, shards, warned):
    def depthwise(params, batch):
        return jax.lax.conv_general_dilated(
            *(batch["x"], params["k"], (1,), "SAME"),
            dimension_numbers=("NWC", "WIO", "NWC"),
            feature_group_count=channels,
        )

    batch = {"x": jax.ShapeDtypeStruct((4, 6, channels), jnp.float32)}
    plan = plan_sharding(
        lambda p, b: depthwise(p, {"x": b["x"] @ p["i"]}),
        shapes(i=(channels, channels), k=(3, 1, channels)),
        batch,
        {"data": 2, "model": shards},
    )
    assert len(plan.warnings) == warned
    assert all("grouped convolution (test_plan.py:" in text for text in plan.warnings)


def test_a_reason_names_others_by_what_their_paths_do_not_share():
    def forward(params, x):
        block = params["model"]["layers"]["mlp"]
        return jax.nn.relu(x @ block["up"]["kernel"]) @ block["down"]["kernel"]

    own = {name: {"kernel": shape} for name, shape in shapes(up=(6, 8), down=(8, 6)).items()}
    params = {"model": {"layers": {"mlp": own}}}
    reasons = [row["reason"] for row in plan_sharding(forward, params, X_6, {"model": 2}).rows()]
    assert reasons[0].startswith("rows: contracts mlp, which up made;")
    assert reasons[1] == "columns: makes mlp, which down contracts"
