"""Rows that a mask selects are computed with all others, where they are written to where they are from."""

from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input


def printed(name):
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"nets_rows.py:{name}", Path(__file__).parent)
    inputs = {"x": Input((12, 16)), "kind": Input((), "int32", 2)}
    return print_class(reference, "--config", {}, Call(inputs))


def test_experts_and_adapters_of_chosen_rows_compute_all_of_them():
    made = printed("Chosen")
    assert made.source.count("jnp.any(") == 4  # the fifth is none that a token can choose
    assert made.source.count("jnp.where(") == 4 + 2 and "kind == 1" in made.source
    assert any("is computed of all" in note for note in made.notes)
    assert "reshape(B, S, " in made.source and max(made.gate.outputs, made.gate.gradients) < 1e-5


def test_a_list_of_experts_adds_what_each_gives_to_the_rows_that_chose_it():
    made = printed("Listed")
    assert made.source.count("result = jnp.where(") >= 3 and "!= 0" not in made.source
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5


@pytest.mark.slow
def test_whether_any_row_is_selected_is_asked_where_none_is_nothing_is_written():
    made = printed("Asked")
    assert "self.experts[0](flat) * shares[..., 0][:, None]" in made.source
    with pytest.raises(RedcoError, match="outputs differ from PyTorch's"):
        printed("Counts")


def test_rows_that_are_written_nowhere_have_no_program():
    with pytest.raises(RedcoError, match=r"nets_rows.py:\d+: a shape follows from values"):
        printed("Selects")


def test_a_list_that_counts_is_counted_by_the_program():
    from redco_new.pytorch.constants import _step

    lists = ([2, 3, 4], [4, 3, 2, 1], [1, 4, 9], [1], [1, 2.0], 3)
    assert [_step(x) for x in lists] == [1, -1, 0, 0, 0, 0]


def test_pairs_of_kinds_beside_distances_and_a_root_of_a_width_over_another_are_said():
    from redco_new.pytorch.sizes import Atom, Number, express

    scope = [Atom("kinds", (32, 160, 72)), Atom("buckets", (512, 128, 160))]
    assert express(Number((1536, 25728, 5344)), scope) == "kinds ** 2 + buckets"
    widths = (64, 96, 128)
    number = Number(tuple((x / 1024) ** 0.5 for x in widths))
    assert express(number, [Atom("width", widths)]) == "(width / 1024) ** 0.5"
