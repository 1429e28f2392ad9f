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


def test_rows_that_are_written_nowhere_have_no_program():
    with pytest.raises(RedcoError, match=r"nets_rows.py:\d+: a shape follows from values"):
        printed("Selects")
