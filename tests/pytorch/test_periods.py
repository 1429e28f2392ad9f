"""Layers of several kinds that come back in one order are periods in a loop; a part that has two programs is two."""

from pathlib import Path

import pytest

from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input


@pytest.mark.parametrize(
    "layers, periods",
    [
        ("aaaa", None), ("ab", None), ("abc", None), ("aab", (0, 1, 2)), ("dmmm", (1, 1, 3)), ("abab", (0, 2, 2)),
        ("sssfsssf", (0, 4, 2)), ("sssssfsssssfss", (0, 6, 2)), ("dababa", (1, 2, 2)),
    ],
)  # fmt: skip
def test_the_fewest_layers_are_written_out(layers, periods):
    from redco_new.pytorch.periods import shortest

    assert shortest(layers) == periods


def test_a_layer_is_stored_by_its_place_among_all():
    from redco_new.pytorch.periods import Order, new_path

    order = Order("h", before=1, length=2, times=2, after=1)
    paths = [new_path([order], f"h.{i}.w") for i in range(6)]
    assert paths == [
        "first_h.0.w",
        "h.0.h.0.w",
        "h.0.h.1.w",
        "h.1.h.0.w",
        "h.1.h.1.w",
        "last_h.0.w",
    ]
    stored = [order.first_and_step(i) for i in range(6)]
    assert stored == [(0, 1), (1, 2), (2, 2), (1, 2), (2, 2), (5, 1)]


def test_layers_in_turn_are_in_one_loop_with_what_stands_before_and_after():
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", "nets_periods.py:InTurn", Path(__file__).parent)
    made = print_class(reference, "--config", {}, Call({"x": Input((12, 16))}))
    lines = made.source.splitlines()
    assert "class MixingLayers(nnx.Module):" in lines and made.source.count("over_layers(") == 1
    (loop,) = (i for i, line in enumerate(lines) if line.strip().startswith("def run("))
    assert (
        "self.first_blocks[0](" in "".join(lines[loop:]) and "self.last_blocks[0](" in made.source
    )
    stored = made.parameters["blocks/blocks/1/mix/kernel"]
    assert (stored.name, stored.first, stored.step) == ("blocks.{}.mix.weight", 2, 2)
    assert (
        "self.waves_2 = Waves2(" in made.source
        and max(made.gate.outputs, made.gate.gradients) < 1e-5
    )
