"""The parser of compiled text, on what the two compilers write."""

import pytest
from redco_fit.compiled.hlo import Collective, collectives, first_group, size

GROUPS = "replica_groups=mesh['a'=1,'m'=4] {'m'}"


def program(*entry, **others):
    """Text of a program: lines of the entry, lines of other computations by name."""
    blocks = [f"%{name} (p: f32[]) -> f32[] {{\n{lines}\n}}" for name, lines in others.items()]
    lines = "\n".join(f"  {line}" for line in entry)
    return "\n\n".join(["HloModule m", *blocks, f"ENTRY %main (p: f32[]) -> f32[] {{\n{lines}\n}}"])


def found(*entry, **others):
    return [(c.kind, c.bytes, c.runs) for c in collectives(program(*entry, **others), 4)]


def test_an_asynchronous_pair_counts_once():
    assert found(
        f"%s = bf16[8,16]{{1,0}} all-reduce-start(%x), channel_id=1, {GROUPS}, to_apply=%add",
        '%d = bf16[8,16]{1,0} all-reduce-done(%s), metadata={op_name="jit(f)/dot"}',
        f"%t = (bf16[2,16]{{1,0}}, bf16[8,16]{{1,0}}) all-gather-start(%x), channel_id=2, {GROUPS}",
        "ROOT %e = bf16[8,16]{1,0} all-gather-done(%t)",
        add="  ROOT %r = bf16[] add(%a, %b)",
    ) == [("all-reduce", 256, 1), ("all-gather", 256, 1)]


def test_an_operation_on_several_arrays_counts_once_with_the_bytes_of_all():
    types = "(bf16[8,16]{1,0:T(8,128)(2,1)S(1)}, /*index=1*/f32[16]{0:T(128)})"
    assert found(f"%a = {types} all-reduce(%x, %y), channel_id=1") == [("all-reduce", 320, 1)]


def test_a_reduce_scatter_has_the_bytes_of_the_whole():
    assert found("%a = f32[4]{0} reduce-scatter(%x), channel_id=1") == [("reduce-scatter", 64, 1)]


def test_libtpu_hides_a_reduce_scatter_in_a_fusion():
    name = "all-reduce-scatter.1"
    inside = {name: "  %a = bf16[8,16]{1,0} all-reduce(%i), channel_id=6, to_apply=%add"}
    fusion = f"%f = bf16[8,4]{{1,0}} fusion(%x), kind=kCustom, calls=%{name}, metadata={{}}"
    assert found(fusion, **inside, add="") == [("reduce-scatter", 256, 1)]


def test_libtpu_writes_an_asynchronous_all_gather_into_several_fusions():
    line = "  %g = bf16[8,16]{1,0} all-gather(%i), channel_id=7, dimensions={0}"
    fusions = [f"%f{i} = (bf16[8]{{0}}) fusion(%x), kind=kCustom, calls=%c{i}" for i in range(3)]
    assert found(*fusions, c0=line, c1=line, c2=line) == [("all-gather", 256, 1)]


def test_gathers_of_one_channel_that_stand_alone_are_several():
    line = "%{} = bf16[8,16]{{1,0}} all-gather(%x), channel_id=1, dimensions={{0}}"
    assert found(line.format("a"), line.format("b")) == [("all-gather", 256, 1)] * 2


LOOP = "%w = (s32[], f32[8]{0}) while(%t), condition=%cond, body=%body"
BODY = "  %p = f32[8]{0} collective-permute(%x), channel_id=3"
BOUND = "  %c = s32[]{:T(128)} constant(5)\n  ROOT %l = pred[] compare(%i, %c), direction=LT"


@pytest.mark.parametrize(
    ("loop", "condition", "runs"),
    [
        (LOOP + ', backend_config={"known_trip_count":{"n":"7"}}', "", 7),
        (LOOP, BOUND, 5),
        (LOOP, "  ROOT %g = pred[] compare(%m, %c), direction=GT", 1),
    ],
)
def test_a_loop_counts_as_often_as_it_runs(loop, condition, runs):
    assert found(loop, cond=condition, body=BODY) == [("collective-permute", 32, runs)]


def test_a_condition_counts_as_the_branch_that_sends_most():
    assert found(
        "%c = f32[8]{0} conditional(%i, %x, %y), branch_computations={%one, %two}",
        one="  %a = f32[8]{0} all-to-all(%x), channel_id=1",
        two="  %a = f32[8]{0} all-reduce(%x), channel_id=2",
    ) == [("all-reduce", 32, 1)]


def test_bytes_of_types():
    assert size("pred[3]{0}") == 3
    assert size("f8e4m3fn[4,2]{1,0}") == 8
    assert size("f32[]") == 4


def test_an_all_gather_and_a_reduce_scatter_send_what_an_all_reduce_does():
    sent = {kind: Collective(kind, 400).sent(4) for kind in ("all-gather", "reduce-scatter")}
    assert sum(sent.values()) == Collective("all-reduce", 400).sent(4) == 600
    assert Collective("all-to-all", 100, runs=2).sent(4) == 150
    assert Collective("collective-permute", 100).sent(4) == 100


@pytest.mark.parametrize(
    ("groups", "first"),
    [
        ("replica_groups={{0,2},{1,3}}", (0, 2)),
        ("replica_groups=[2,4]<=[8]", (0, 1, 2, 3)),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", (0, 4)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_0'}", (0, 4)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_1'}", (0, 1, 2, 3)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=2] {'axis_0','axis_1'}", (0, 1, 2, 3)),
        (
            "replica_groups=mesh['axis_0'=4,'axis_1'=1,'axis_2'=2], device_ids=([2,4]T(1,0)) {'axis_0'}",
            (0, 1, 2, 3),
        ),
        ("replica_groups=mesh['axis_0'=4] {'axis_0':(1)2}", ()),
        ("replica_groups={}", ()),
        ("source_target_pairs={{0,1},{1,0}}", (0, 1)),
    ],
)
def test_a_group_is_read_in_each_way_that_it_is_written(groups, first):
    assert first_group(f"%x), channel_id=1, {groups}, to_apply=%add") == first


def test_an_end_is_among_the_devices_of_its_start():
    start = (
        "%s = (bf16[8,16]{1,0}) all-gather-start(%x), channel_id=1, replica_groups={{0,1},{2,3}}"
    )
    done = "%d = bf16[8,32]{1,0} all-gather-done(%s)"
    text = f"ENTRY %main (p: f32[]) -> f32[] {{\n  {start}\n  {done}\n}}"
    (one,) = collectives(text, 4)
    assert one.group == (0, 1)
    assert one.sent(4) == 512 / 2
