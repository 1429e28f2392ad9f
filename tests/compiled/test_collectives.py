"""Ours against the hand-written plan, in the programs that the compilers of H100 and v5e make."""

import pytest
from compiled.report import TABLE, run_workers
from compiled.table import cell, read

pytestmark = pytest.mark.slow  # the compilers of H100 and v5e take two minutes of both cores

# As many as a minute allows; libtpu takes ten times as long. The table has the others.
MODELS = {
    "h100": (
        *("encoder", "llama", "gpt2_unrolled", "fused", "scanned", "vit"),
        *("moe_dense", "mla", "mamba", "square"),
    ),
    "v5e": ("scanned",),
}
CASES = [(target, model) for target, models in MODELS.items() for model in models]
# All-reduces of a layer, and what they send, in all-reduces of (B,S,D). An encoder that has its norms
# behind does not add the gradients of q, k and v up before the all-reduce.
LAYERS = {
    ("h100", "llama"): (4, 4),
    ("h100", "gpt2_unrolled"): (4, 4),  # its q, k and v are fused
    ("h100", "vit"): (4, 2.01),  # 257 tokens, not 512
    ("h100", "encoder"): (4, 6),
    # A parallel block, whose two sums are reduced together.
    ("h100", "scanned"): (2, 3),
    ("v5e", "scanned"): (2, 3),
}


@pytest.fixture(scope="module")
def records():
    flags = ("--layouts", "ours", "hand")
    found = run_workers({target: (*models, *flags) for target, models in MODELS.items()})
    return {(r["target"], r["model"], r["layout"]): r for r in found}


@pytest.mark.parametrize(("target", "model"), CASES)
def test_ours_sends_no_more_than_the_hand_written_plan(records, target, model):
    ours, hand = (records[target, model, layout] for layout in ("ours", "hand"))
    assert sum(ours["counts"].values()) <= sum(hand["counts"].values()), ours["found"]
    assert ours["units"] <= hand["units"], ours["found"]
    assert ours["held"] <= hand["held"]


@pytest.mark.parametrize(("target", "model"), LAYERS)
def test_a_layer_sends_megatrons_all_reduces(records, target, model):
    count, units = LAYERS[target, model]
    layer = records[target, model, "layer"]
    assert (layer["counts"], layer["units"]) == ({"all-reduce": count}, units)


@pytest.mark.parametrize(("target", "model"), CASES)
def test_nothing_is_rematerialized_for_want_of_a_way(records, target, model):
    assert records[target, model, "ours"]["remats"] == 0


def test_the_committed_table_says_what_is_found(records):
    committed = read(TABLE.read_text())
    assert {key: committed.get(key) for key in records} == {k: cell(r) for k, r in records.items()}
