"""What the peers lost at each step, as the table recorded it, is what ours does: they need not be here."""

import json
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parents[1] / "tools/parity"
RECORDED = json.loads((HERE / "recorded.json").read_text())


@pytest.fixture
def parity(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import cases
    import checkpoints
    import ours

    return {case.name: case for case in cases.CASES}, checkpoints, ours


def test_each_case_is_recorded(parity):
    cases, _, _ = parity
    assert [*RECORDED] == [*cases]
    assert all(np.array(steps).shape == (40, 2) for steps in RECORDED.values())


@pytest.mark.long
@pytest.mark.parametrize("name", ["sft, chats", "dpo", "preference, kto", "preference, orpo"])
def test_ours_loses_what_the_peer_did(name, parity, tmp_path):
    cases, checkpoints, ours = parity
    checkpoints.prepare(cases[name], tmp_path)
    ours.create(cases[name], tmp_path)
    ours.train(cases[name], tmp_path)
    np.testing.assert_allclose(ours.figures(tmp_path), RECORDED[name], rtol=1e-4)
