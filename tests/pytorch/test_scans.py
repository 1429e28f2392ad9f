"""A loop over positions becomes one step, which is scanned over."""

from pathlib import Path
from types import ModuleType

import pytest

from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input

STEP = """
        def step(states, rows):
            state, largest = states
            gate, up = rows
            state = gate * state + up
            largest = jnp.maximum(largest, state)
            return ((state, largest), (state * self.weight[...].astype(self.dtype), largest))
"""


@pytest.fixture(scope="module")
def made():
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", "nets_parts.py:Decay", Path(__file__).parent)
    return print_class(reference, "--config", {}, Call({"x": Input((12, 16))}))


def test_a_loop_over_positions_is_one_step_for_all_lengths(made):
    assert STEP in made.source
    assert "jax.lax.scan(step, (state, largest), (" in made.source
    assert ", 1, 0)" in made.source and "length" not in made.source and "12" not in made.source
    assert not made.notes and max(made.gate.outputs, made.gate.gradients) < 1e-5


def test_a_size_is_made_of_what_its_author_names_on_the_way(made):
    assert "2 * (config.width + config.pairs * config.keys)" in made.source


def test_few_lines_that_repeat_are_read_as_they_are():
    import torch
    from torch import nn

    from redco_new.pytorch.graph import trace

    class Sums(nn.Module):
        def forward(self, x):
            total = x[:, 0]
            for i in range(1, x.shape[1]):
                total = total * 0.5 + x[:, i]
            return total

    with torch.device("meta"):
        counts = {
            n: len(trace(Sums(), {"x": torch.zeros(2, n)}).graphs[""].nodes) for n in (6, 9, 12)
        }
    assert counts[9] == counts[12] < counts[6]


def test_a_recurrence_in_two_forms_is_that_over_tokens():
    from redco_new.pytorch.step_forms import by_steps

    source = ModuleType("source")
    source.chunk_rule, source.recurrent_rule = (lambda: "chunks"), (lambda: "tokens")
    source.chunk_size = 64
    assert by_steps(lambda: source.chunk_rule(), source)() == "tokens"
    assert source.chunk_rule() == "chunks"


def test_small_sizes_are_not_all_as_much_larger():
    from redco_new.pytorch.search import Search
    from redco_new.pytorch.setting import Setting
    from torch import nn

    def make(sizes):
        return nn.Conv1d(sizes["width"], sizes["width"], sizes["kernel"], padding=sizes["kernel"])

    base = Setting({"width": 8, "kernel": 4}, {"input": Input((8, 12))})
    search = Search(make, Call(base.inputs), base)
    others = [search.other(base, number).arguments for number in (1, 2)]
    assert all(one["width"] - 8 != one["kernel"] - 4 for one in others)
