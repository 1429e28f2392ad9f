import pytest
from collectives import collectives
from report import ROWS, table
from sizes import Sizes, tokens

LOOP = """
%sum (a: f32[], b: f32[]) -> f32[] {
  ROOT %add = f32[] add(%a, %b)
}

%layer (carry: (s32[], f32[2,8])) -> (s32[], f32[2,8]) {
  %joined = (f32[2,8]{1,0}, f32[2,8]{1,0}) all-reduce(%p, %q), channel_id=1, to_apply=%sum
  ROOT %tuple = (s32[], f32[2,8]{1,0}) tuple(%i, %x)
}

ENTRY %main (x: f32[2,8]) -> f32[2,8] {
  %while.1 = (s32[], f32[2,8]{1,0}) while(%start), condition=%less, body=%layer{trips}
  %whole = f32[32]{0} all-gather(%part), channel_id=2, dimensions={0}
}
"""
TRIPS = ', backend_config={"known_trip_count":{"n":"3"},"known_init_step":{"init":"0","step":"1"}}'


def test_collectives_in_a_loop_count_once_a_trip():
    found = collectives(LOOP.replace("{trips}", TRIPS), unit=64)
    assert {name: number for name, number in found.items() if number} == {
        "all_reduce_ops": 3,
        "all_reduce_units": 6.0,
        "all_gather_ops": 1,
        "all_gather_units": 2.0,
    }


def test_a_loop_of_unknown_length_is_not_guessed():
    with pytest.raises(ValueError, match="does not say its trips"):
        collectives(LOOP.replace("{trips}", ""), unit=64)


def test_sides_of_different_size_are_not_compared():
    sides = [{"side": "redco", "parameters": 10}, {"side": "ours", "parameters": 11}]
    with pytest.raises(ValueError, match=r"differ in parameters: \[10, 11\]"):
        table(sides)


def test_the_worst_round_is_shown_beside_the_medians():
    seconds = {"redco": (2.0, 4.0, 4.0), "ours": (3.0, 2.0, 2.0)}
    records = [
        {key: value for _, key, *_ in ROWS} | {"side": side, "parameters": 1, "jax": ""}
        for side, values in seconds.items()
        for value in values
    ]
    step = table(records).splitlines()[1]
    assert step.split() == ["step,", "s", "4", "2", "0.5", "1.5", "1"]


def test_both_sides_take_the_same_number_of_batches():
    sizes = Sizes(V=5, B=3, steps=2)
    assert tokens(sizes, 4).shape == (6 * 3, 4)
    assert tokens(sizes, 4).max() == 4
