"""What a program costs, read from its text."""

from dataclasses import replace

import pytest
from redco_fit.compiled.groups import AHEAD, ROOM, STEP, TILE
from redco_fit.compiled.instructions import Program
from redco_fit.compiled.products import attention_workspace, seen
from redco_fit.compiled.roofline import SELDOM, Machine, bound
from redco_runtime.nn.experts import expert_passes, expert_rows
from redco_runtime.nn.experts import grouped_matmul as kernels
from tables.performance import ROWS, cells_of, read, written

# One FLOP takes a second, as a byte of memory does, and nothing a second over the link.
UNIT = Machine(1.0, 1.0, float("inf"))


def cost(*entry, machine=UNIT, expert_parts=1, **others):
    blocks = [f"%{name} (p: f32[]) -> f32[] {{\n{lines}\n}}" for name, lines in others.items()]
    lines = "\n".join(f"  {line}" for line in entry)
    text = "\n\n".join([*blocks, f"ENTRY %main (p: f32[]) -> f32[] {{\n{lines}\n}}"])
    return bound(text, 1, machine, 8, expert_parts=expert_parts)


X, W = "%x = bf16[4,8]{1,0} parameter(0)", "%w = bf16[8,2]{1,0} parameter(1)"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
CUBLAS = (
    'custom_call_target="__cublas$lt$matmul", backend_config={"lhs_contracting_dimensions":["1"]}'
)


PRODUCTS = [
    f"%y = bf16[4,2]{{1,0}} dot(%x, %w), {DOT}",
    f"%y = bf16[4,2]{{1,0}} custom-call(%x, %w), {CUBLAS}",
    "%y = bf16[4,2]{1,0} convolution(%x, %w), dim_labels=bf_io->bf",
]


@pytest.mark.parametrize("product", PRODUCTS, ids=["dot", "cublas", "libtpu"])
def test_a_product_takes_its_flops_or_its_bytes(product):
    assert cost(X, W, product)["flops"] == 2 * 4 * 8 * 2
    assert cost(X, W, product)["products"] == max(2 * 4 * 8 * 2, 2 * (4 * 8 + 8 * 2 + 4 * 2))


@pytest.mark.parametrize(
    ("types", "seconds"),
    [
        ("f8e4m3fn f8e5m2", 64),
        ("s8 s8", 128),
        ("bf16 bf16", 128),
        ("f32 f32", 256),
        ("f8e4m3fn bf16", 128),
    ],
)
def test_a_product_is_as_fast_as_the_wider_of_its_operands(types, seconds):
    x, w = types.split()
    machine = Machine(1.0, 1e9, float("inf"), others={"float8": 2.0, "float32": 0.5})
    entry = X.replace("bf16", x), W.replace("bf16", w), PRODUCTS[1]
    for lines, blocks in ((entry, {}), fused(entry)):
        read = cost(*lines, machine=machine, **blocks)
        assert read["products"] == seconds and read["flops"] == 128
        assert read["flops8"] == (128 if "bf16" not in types and "32" not in types else 0)


def fused(entry):
    """The same product in a fusion, beside what is none."""
    *inputs, product = entry
    body = "\n".join(f"  {line}" for line in (*inputs, product, "%z = f32[4,2]{1,0} convert(%y)"))
    call = "%y = bf16[4,2]{1,0} fusion(%x, %w), kind=kCustom, calls=%body"
    return (*inputs, call), {"body": body}


GROUPS = [
    f"%{name} = {type_} parameter(0)"
    for name, type_ in {
        "c": "s32[3]{0}",
        "e": "s32[2]{0}",
        "x": "bf16[48,8]{1,0}",
        "w": "bf16[2,8,4]{2,1,0}",
        "y": "bf16[48,4]{1,0}",
    }.items()
]
TRITON = 'custom_call_target="__gpu$xla.gpu.triton", backend_config={grid_x = 3 : i32}'
TO_ROWS = f"%a = bf16[48,4]{{1,0}} custom-call(%c, %x, %w), {TRITON}"
TO_KERNELS = f"%b = bf16[2,8,4]{{2,1,0}} custom-call(%e, %e, %x, %y), {TRITON}"


def test_a_product_of_groups_takes_the_rows_that_groups_fill_in_the_mean():
    """48 rows in blocks of 16 are 18 at least, of two groups; half of the 30 others fill up blocks."""
    assert cost(*GROUPS, TO_ROWS)["flops"] == 2 * 33 * 8 * 4
    assert cost(*GROUPS, TO_ROWS, TO_KERNELS)["flops"] == 2 * 2 * 33 * 8 * 4


def test_of_experts_that_devices_share_each_multiplies_its_part():
    """Of room for 18 rows, four in five are the share of a device; those that fill up the blocks of two groups are 15."""
    assert cost(*GROUPS, TO_ROWS, expert_parts=2)["flops"] == 2 * (18 / 1.25 + 15) * 8 * 4
    # What is not of groups is not shared.
    assert cost(X, W, PRODUCTS[0], expert_parts=2)["flops"] == 2 * 4 * 8 * 2


def test_a_tpus_product_of_groups_is_one_too():
    tpu = TO_ROWS.replace(TRITON, 'frontend_attributes={ragged_dot_tiling="16,8,4"}')
    assert cost(*GROUPS, tpu)["flops"] == 2 * 33 * 8 * 4


def test_tiles_of_groups_wait_for_the_cache_that_all_cores_read():
    """Tiles of 16 x 4 and of 8 x 4; one step of 8 numbers, or a step of 16 of each group's 16.5 rows, and three are loaded before."""
    slow = replace(UNIT, cache=1e-3)
    flops = 2 * 33 * 8 * 4
    assert cost(*GROUPS, TO_ROWS, machine=slow)["products"] == pytest.approx(
        1e3 * flops * (1 / 16 + 1 / 4) * 4
    )
    both = cost(*GROUPS, TO_ROWS, TO_KERNELS, machine=slow)["products"]
    steps = 33 / 2 / 16
    assert both == pytest.approx(
        1e3 * flops * ((1 / 16 + 1 / 4) * 4 + (1 / 8 + 1 / 4) * (1 + 3 / steps))
    )


def test_the_tiles_of_groups_are_those_of_the_runtime():
    assert (TILE, STEP, AHEAD) == (kernels.TILE, kernels.STEP, kernels.OPTIONS.num_stages)
    assert (ROOM, SELDOM) == (expert_rows.ROOM, f"/{expert_passes.SCOPE}/")


ADDING = "  %p = f32[] parameter(0)\n  ROOT %s = f32[] add(%p, %p)"
SETTING = "  %p = f32[] parameter(0)\n  ROOT %s = f32[] maximum(%p, %p)"


@pytest.mark.parametrize(("region", "seconds"), [(ADDING, 1000 * 4 * 8), (SETTING, 0)])
def test_a_scatter_adds_number_by_number(region, seconds):
    scatter = "%y = bf16[4,8]{1,0} scatter(%x, %i, %x), to_apply=%r"
    lines = (X, "%i = s32[4]{0} parameter(1)", scatter)
    inside = "\n".join(f"  {line}" for line in lines)
    slow = replace(UNIT, added=1e-3)
    fusion = "%f = bf16[4,8]{1,0} fusion(%x, %i), kind=kInput, calls=%g"
    for entry in ((*lines,), (*lines[:2], fusion)):
        moved = cost(*entry, r=region, g=inside)["other"]
        assert moved < 1000
        assert cost(*entry, r=region, g=inside, machine=slow)["other"] == max(moved, seconds)


def test_what_a_fusion_multiplies_counts_and_the_rest_moves_bytes():
    inside = "\n".join(f"  {text}" for text in (X, W, f"%y = bf16[4,2]{{1,0}} dot(%x, %w), {DOT}"))
    fused = cost(X, W, "%f = bf16[4,2]{1,0} fusion(%x, %w), kind=kCustom, calls=%g", g=inside)
    assert (fused["flops"], fused["other"]) == (128, 0)
    moved = cost(X, "%n = bf16[4,8]{1,0} negate(%x)")
    assert (moved["flops"], moved["other"], moved["seconds"]) == (0, 128, 128)


@pytest.mark.parametrize("part", ["dynamic-slice(%x, %i)", "slice(%x), slice={[3:4], [0:8]}"])
def test_a_layer_of_a_stack_is_read_and_not_the_stack(part):
    stack, sliced = "%x = f32[9,8]{1,0} parameter(0)", f"%y = f32[1,8]{{1,0}} {part}"
    inside = "\n".join(f"  {text}" for text in (stack, "%i = s32[] parameter(1)", sliced))
    fusion = "%f = f32[1,8]{1,0} fusion(%x, %i), kind=kLoop, calls=%g"
    assert cost(stack, "%i = s32[] parameter(1)", fusion, g=inside)["seconds"] == 32 + 32 + 4


def test_a_loop_counts_as_often_as_it_runs():
    loop = '%w = (f32[]) while(%t), condition=%c, body=%b, backend_config={"known_trip_count":{"n":"7"}}'
    body = "  %x = f32[2]{0} parameter(0)\n  %n = f32[2]{0} negate(%x)"
    assert cost(loop, b=body)["seconds"] == 7 * 16


def test_of_a_condition_the_longer_branch_counts_but_where_it_is_seldom_taken():
    branches = {
        name: "  %x = f32[2]{0} parameter(0)\n"
        + "\n".join(f"  %n{i} = f32[2]{{0}} negate(%x)" for i in range(runs))
        for name, runs in (("once", 1), ("twice", 2))
    }
    condition = "%c = f32[2] conditional(%i, %x, %x), branch_computations={%once, %twice}"
    assert cost(condition, **branches)["seconds"] == 2 * 16
    seldom = ', metadata={op_name="jit(train)/seldom/cond"}'
    assert cost(condition + seldom, **branches)["seconds"] == 16


def test_scores_are_arrays_with_two_dims_of_the_length():
    assert (
        cost("%x = bf16[3,8,8]{2,1,0} parameter(0)", "%y = bf16[3,8,8] negate(%x)")["squares"]
        == 768
    )
    assert cost(X, "%n = bf16[4,8]{1,0} negate(%x)")["squares"] == 0


def test_pairs_of_queries_and_keys():
    assert seen(4, 4) == 1 + 2 + 3 + 4
    assert seen(4, 2) == 1 + 2 + 2 + 2


def test_the_table_is_written_and_read_alike():
    record = {
        "bound": 0.584,
        "ratio": 1.0,
        "peak": 21.4,
        "squares": 0.0,
        "gathered": 2.0,
        "waited": 4.0,
        "scattered": 1.0,
    }
    tpu = {
        name: value for name, value in record.items() if name not in ("bound", "ratio", "waited")
    }
    cells = {ROWS[0].name: cells_of(record), ROWS[-1].name: cells_of(tpu)}
    assert read(written(cells)) == cells


GATHERS = [
    "%s = (bf16[2,8]{1,0}, bf16[4,8]{1,0}) all-gather-start(%x), channel_id=1, dimensions={0}",
    "%n = bf16[4,8]{1,0} negate(%x)",
    "%d = bf16[4,8]{1,0} all-gather-done(%s)",
]


def test_a_collective_waits_for_as_long_as_nothing_is_computed_beside_it():
    text = "\n".join(
        ["ENTRY %main (p: f32[]) -> f32[] {", *(f"  {line}" for line in (X, *GATHERS)), "}"]
    )
    slow = Machine(1.0, 1.0, 0.1)  # a device sends half of 64 bytes: 320 seconds, beside 128
    assert bound(text, 2, slow, 8)["exposed"] == 320 - 128
    assert bound(text, 2, UNIT, 8)["exposed"] == 0


def backward(texts: str) -> Program:
    """The backward kernel of llama 3.2-1b on one device, B 8, S 2048."""
    config = f'"intermediate_tensor_shape":{{"dimensions":["8","32","2048","2048"]}},{texts}'
    lines = (
        "%q = bf16[8,2048,32,64]{3,2,1,0} parameter(0)",
        "%k = bf16[8,2048,8,64]{3,2,1,0} parameter(1)",
        '%g = (bf16[8,2048,32,64]{3,2,1,0}, u8[0]{0}) custom-call(%q, %k), custom_call_target="__cudnn$fmhaSoftmaxBackward", '
        f'backend_config={{"cudnn_fmha_backend_config":{{{config}}}}}',
    )
    return Program("ENTRY %main (p: f32[]) -> f32[] {\n  " + "\n  ".join(lines) + "\n}")


def test_the_memory_of_cudnns_attention_is_what_an_h100_took():
    one, packed = backward('"max_seg_per_batch":1'), backward('"max_seg_per_batch":"33"')
    assert attention_workspace(one) == 4 * 8 * 2048 * 32 * 64
    # Of measured.jsonl, temporaries with eight texts a row and with one; 16 layers save a sum of each query for 32 texts more.
    more = 29_892_141_584 - 20_026_592_248 - 16 * 4 * 8 * 32 * 32 * 2048
    assert attention_workspace(packed) - attention_workspace(one) == pytest.approx(more, rel=0.001)
    assert attention_workspace(one, texts=33) == attention_workspace(packed)


def test_of_a_stack_that_a_fusion_converts_a_layer_is_read():
    lines = (
        "%x = f32[9,8]{1,0} parameter(0)",
        "%c = bf16[9,8]{1,0} convert(%x)",
        "%y = bf16[1,8]{1,0} slice(%c), slice={[0:1], [0:8]}",
    )
    inside = "\n".join(f"  {line}" for line in lines)
    fusion = "%f = bf16[1,8]{1,0} fusion(%x), kind=kLoop, calls=%g"
    assert cost(lines[0], fusion, g=inside)["seconds"] == 32 + 16
