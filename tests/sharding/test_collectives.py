"""The collectives that are predicted: those that Megatron's authors count, and compilers make."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P
from redco_runtime.nn.embedding import look_up
from sharding.models import ZOO
from sharding.zoo import X, D, F, H, V, shapes

from redco_plan.causes import PHASES
from redco_plan import (
    Collective,
    bytes_sent,
    collectives_per_layer,
    plan_sharding,
    predict_collectives,
)
from redco_plan.collective import GRADIENTS, PARAMETERS

SEQUENTIAL = ["llama", "gpt2", "gpt2_unrolled", "vit"]
PARALLEL = ["scanned", "unrolled"]


def plan_of(name, *, sequence_parallel=False, adapt=False, **mesh):
    forward, params, batch = ZOO[name]
    options = {"sequence_parallel": sequence_parallel, "adapt": adapt}
    return plan_sharding(forward, params, batch, mesh, **options)


def activations(plan):
    return [one for one in predict_collectives(plan) if one.classes]


def kinds(found, layers=1):
    """(kind, phase) -> how many a layer."""
    counts = {}
    for one in found:
        counts[one.kind, one.phase] = counts.get((one.kind, one.phase), 0) + one.times // layers
    return counts


def residual(name, **options):
    """(layers, what each sends over the residual stream)."""
    layers, found = collectives_per_layer(predict_collectives(plan_of(name, model=2, **options)))
    return layers, [one for one in found if one.array.endswith(" D")]


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_a_layer_of_attention_then_mlp_has_four(name):
    layers, found = residual(name)
    assert layers == 2
    assert kinds(found, layers) == {("all-reduce", "forward"): 2, ("all-reduce", "backward"): 2}
    assert len({one.bytes for one in found}) == 1


@pytest.mark.parametrize("name", PARALLEL)
def test_a_layer_of_attention_beside_mlp_has_two(name):
    layers, found = residual(name)
    assert layers == 2
    assert kinds(found, layers) == {("all-reduce", "forward"): 1, ("all-reduce", "backward"): 1}
    assert {one.classes for one in found} == {("heads", "mlp")}


def beside(add):
    """Two MLPs on one input, and what is made of their outputs and the input."""

    def forward(p, batch):
        x = batch["x"] * p["scale"]
        h = jax.numpy.tanh(x)
        return add(x, jax.nn.relu(h @ p["a"]) @ p["b"], jax.nn.relu(h @ p["c"]) @ p["d"])

    params = shapes(a=(D, F), b=(F, D), c=(D, F), d=(F, D), scale=(D,))
    (one,) = [
        o for o in predict_collectives(plan_sharding(forward, params, X, {"model": 4})) if o.classes
    ][:1]
    return one


def test_sums_that_are_added_up_first_are_one_array():
    assert beside(lambda x, a, b: x + (a + b)).array == f"B {D}"
    assert beside(lambda x, a, b: (x + a) + b).array == f"2 of B {D}"


def test_layers_that_share_a_class_lie_side_by_side_each():
    def forward(p, batch):
        x = batch["x"] @ p["first"]
        for w in p["layers"]:
            h = jax.numpy.tanh(x)
            a, c = jax.nn.relu(h @ w["a"]) * p["shared"], jax.nn.relu(h @ w["c"])
            x = a @ w["b"] + c @ w["d"]
        return x

    layer = shapes(a=(D, F), b=(F, D), c=(D, F), d=(F, D))
    params = shapes(first=(D, D), shared=(F,)) | {"layers": [layer] * 2}
    found = activations(plan_sharding(forward, params, X, {"model": 4}))
    arrays = [(one.array, one.times) for one in found if one.phase == "forward"]
    assert arrays == [("B D", 1), (f"B {D}", 1)], "the last layer has columns of its own"


def test_norms_of_their_own_do_not_part_what_lies_side_by_side():
    def forward(p, batch):
        x = batch["x"] @ p["first"]
        a, c = jax.numpy.tanh(x * p["n"]), jax.numpy.tanh(x * p["m"])
        return x + (jax.nn.relu(a @ p["a"]) @ p["b"] + jax.nn.relu(c @ p["c"]) @ p["d"])

    params = shapes(first=(D, D), n=(D,), m=(D,), a=(D, F), b=(F, D), c=(D, F), d=(F, D))
    found = activations(plan_sharding(forward, params, X, {"model": 4}))
    arrays = [(one.phase, one.array) for one in found if one.classes == ("mlp",)]
    assert arrays == [("forward", "B D"), ("backward", "2 of B D")]


def test_the_batch_has_no_gradient():
    (one,) = activations(plan_of("mlp", model=4))
    assert (one.kind, one.phase, one.array) == ("all-reduce", "forward", f"B {D}")


def test_what_is_of_parameters_alone_is_whole_on_each_device():
    def forward(p, batch):
        return batch["x"] @ (p["i"] @ p["o"])

    plan = plan_sharding(forward, shapes(i=(D, F), o=(F, D)), X, {"data": 2, "model": 4})
    (one,) = activations(plan)
    assert (one.array, one.bytes) == (f"{D} {D}", 4 * D * D)


def test_each_has_its_line():
    for one in activations(plan_of("llama", model=2)):
        assert one.sources and all(s.startswith("zoo_text.py:") for s in one.sources)


def test_sequence_parallelism_sends_the_same_bytes_in_halves():
    layers, found = residual("llama", sequence_parallel=True)
    both = [(kind, phase) for kind in ("all-gather", "reduce-scatter") for phase in PHASES]
    assert kinds(found, layers) == dict.fromkeys(both, 2)


def test_heads_in_fewer_parts_are_summed_over_the_rest():
    plan = plan_of("llama", adapt=True, model=8)
    (one,) = [one for one in predict_collectives(plan) if one.classes == ("kv_heads",)]
    assert (one.kind, one.phase, one.axes) == ("all-reduce", "backward", ("model_2",))
    assert (one.array, one.times) == (f"B S K {H}", 4)


def test_fsdp_gathers_parameters_and_scatters_gradients():
    plan = plan_of("mlp", fsdp=2, model=4)
    held = 2 * D * F * 4 // 4
    bias = F * 4 // 4
    assert [one for one in predict_collectives(plan) if not one.classes] == [
        Collective("all-gather", "forward", ("fsdp",), (), PARAMETERS, held, 1, ()),
        Collective("all-gather", "backward", ("fsdp",), (), PARAMETERS, held, 1, ()),
        Collective("reduce-scatter", "backward", ("fsdp",), (), GRADIENTS, held, 1, ()),
        Collective("all-reduce", "backward", ("fsdp",), (), GRADIENTS, bias, 1, ()),
    ]
    several = predict_collectives(plan_of("mlp", data=2, fsdp=2, model=4))
    assert [one for one in several if not one.classes][3:] == [
        Collective("all-reduce", "backward", ("data",), (), GRADIENTS, held // 2, 1, ()),
        Collective("all-reduce", "backward", ("data", "fsdp"), (), GRADIENTS, bias, 1, ()),
    ]


def index(table, ids, dtype):
    return table[ids].astype(dtype)


def index_cast(table, ids, dtype):
    return table.astype(dtype)[ids]


@pytest.mark.parametrize("rows_of", [index, index_cast, look_up])
@pytest.mark.parametrize("tied", [False, True])
def test_rows_of_a_table_travel_and_the_table_only_where_it_is_multiplied(tied, rows_of):
    def forward(p, batch):
        x = checkpoint_name(rows_of(p["table"], batch["ids"], "bfloat16"), "rows_BSD")
        x = jax.nn.relu(x @ p["up"]) @ p["down"]
        return x @ p["table"].T if tied else x

    params = shapes(table=(V, D), up=(D, F), down=(F, D))
    batch = {"ids": jax.ShapeDtypeStruct((8, 16), "int32")}
    found = predict_collectives(plan_sharding(forward, params, batch, {"fsdp": 4}))
    rows = [(one.phase, one.bytes) for one in found if one.kind == "all-to-all"]
    assert rows == [(phase, 2 * 16 * D * 2) for phase in PHASES]
    whole = 4 * (2 * D * F + (V * D if tied else 0))
    assert [one.bytes for one in found if one.array == PARAMETERS] == [whole, whole]


@pytest.mark.parametrize(("tied", "positions"), [(True, None), (False, "model")])
def test_what_splits_the_words_of_a_table_splits_no_tokens_of_its_rows(tied, positions):
    def forward(p, batch):
        x = checkpoint_name(p["table"][batch["ids"]], "rows_BSD")
        for up, down in (("up", "down"), ("out", "back")):
            x = x + jax.nn.relu(x @ p[up]) @ p[down]
        return x @ p["table" if tied else "head"].T

    layers = {"up": (D, F), "down": (F, D), "out": (D, 2 * F), "back": (2 * F, D)}
    params = shapes(table=(V, D), head=(V, D), **layers)
    batch = {"ids": jax.ShapeDtypeStruct((8, 16), "int32")}
    plan = plan_sharding(forward, params, batch, {"fsdp": 2, "model": 2}, sequence_parallel=True)
    assert plan.activations["rows_BSD"] == P("data", positions, "fsdp")


def test_keys_and_values_go_around_a_ring():
    """Once forward, of two devices; backward once more, and their gradients. And parts of texts, for whole halves."""
    forward, params, batch = ZOO["llama"]
    plan = plan_sharding(forward, params, batch, {"context": 2, "model": 2}, ring=True)
    sent = {phase: Counter() for phase in PHASES}
    for one in predict_collectives(plan):
        if one.classes == ("positions",):
            assert (one.kind, one.axes) == ("collective-permute", ("context",))
            sent[one.phase][one.bytes] += one.times
    q = k = v = 1024  # bytes on a device; its sums have one number for 8 of q
    sums, layers = q // 8, 2
    forward = {k + v: 1, (q + k + v) // 2: 2, q // 2: 2, sums // 2: 2}
    backward = {k + v: 3, (3 * q + k + v) // 2: 2, sums // 2: 2, (q + k + v) // 2: 2}
    for phase, each in zip(PHASES, (forward, backward), strict=True):
        assert sent[phase] == {size: layers * times for size, times in each.items()}


def test_what_meets_in_attention_changes_from_positions_to_heads():
    found = predict_collectives(plan_of("llama", context=2, model=2))
    moved = [one for one in found if one.classes == ("positions",)]
    assert {(one.kind, one.axes) for one in moved} == {("all-to-all", ("context",))}
    for phase in ("forward", "backward"):  # queries, keys, values, results, of two layers
        assert sum(o.times for o in moved if o.phase == phase) == 8
    gathered = predict_collectives(plan_of("llama", fsdp=2, model=2))
    sizes = [[o.bytes for o in of if o.array == "parameters"] for of in (found, gathered)]
    assert sizes[0] == sizes[1]


def test_nothing_is_sent_over_an_axis_of_one_device():
    assert not predict_collectives(plan_of("llama", model=1))
    (one,) = predict_collectives(plan_of("llama", data=2, model=1))
    assert (one.axes, one.array) == (("data",), GRADIENTS)


def test_experts_change_places_with_the_rows_of_the_batch():
    found = activations(plan_of("moe_capacity", expert=2, model=2))
    sent = [one for one in found if one.kind == "all-to-all"]
    assert kinds(sent) == {("all-to-all", "forward"): 2, ("all-to-all", "backward"): 2}
    assert {one.axes for one in sent} == {("expert",)}


@pytest.mark.parametrize("name", sorted(ZOO.keys() - {"on_devices"}))
def test_every_model_is_predicted(name):
    for one in predict_collectives(plan_of(name, adapt=True, fsdp=2, model=4)):
        assert one.bytes > 0 and one.times > 0 and one.axes


def test_bytes_that_are_sent_are_those_of_rings_in_the_order_of_the_mesh():
    def collective(kind, axes, size, times=1):
        return Collective(kind, "forward", axes, (), "B S D", size, times, ())

    plan = SimpleNamespace(mesh={"data": 2, "fsdp": 4, "model": 1})
    found = bytes_sent(
        plan,
        [
            collective("collective-permute", ("fsdp",), 8),
            collective("all-gather", ("fsdp",), 16, 3),
            collective("all-reduce", ("data", "fsdp"), 80),
            collective("all-to-all", ("data",), 10),
            collective("all-gather", ("model",), 99),
        ],
    )
    expected = {("data",): 5, ("data", "fsdp"): 140, ("fsdp",): 8 + 36}
    assert [*found.items()] == [*expected.items()]


def test_what_is_frozen_has_no_gradient_to_reduce():
    plan = plan_sharding(*ZOO["gpt2"], {"data": 2, "fsdp": 2})
    frozen = replace(plan, frozen=frozenset(x.path for x in plan.parameters))
    arrays = [
        {one.array for one in predict_collectives(x) if not one.classes} for x in (plan, frozen)
    ]
    assert arrays[0] - arrays[1] == {GRADIENTS} and PARAMETERS in arrays[1]
