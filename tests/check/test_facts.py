"""When a fact is another than it was, and what of .redco/check.json is refused."""

import json

import pytest

from redco_new.check.facts import FILE, Facts, differences, read_facts, write_facts
from redco_new.check.run import _keep
from redco_new.errors import RedcoError

LOSS = {"loss": [5.0, 4.0], "grad_norm": [2.0, 1.0]}
SENT = {"bytes": {"all-reduce over model": 100}, "places": {}}
VALUES = {"loss": LOSS, "order": ["a", "b"], "reach": "all", "specs": {"x": "P('model')"}}


@pytest.mark.parametrize(
    ("name", "before", "now", "says"),
    [
        ("loss", LOSS, {"loss": [5.00001, 4.0003], "grad_norm": [2.0, 1.0]}, []),
        ("loss", LOSS, {**LOSS, "loss": [5.001, 4.0]}, ["loss of step 1 is 5.001, was 5"]),
        ("loss", LOSS, {**LOSS, "grad_norm": [2.0, 1.1]}, ["grad_norm of step 2 is 1.1, was 1"]),
        (
            "loss",
            LOSS,
            {**LOSS, "loss": [float("nan"), 4.0]},
            ["loss of step 1 is nan, was 5"],
        ),
        ("order", ["a", "b"], ["a", "c"], ["the batch of step 2 is another"]),
        ("order", ["a", "b"], ["a", "b"], []),
        ("reach", "all", "later", ["a token has an effect on later, before on all"]),
        ("specs", {"x": "P('model')"}, {}, ["x is whole, was P('model')"]),
        ("checkpoint", {}, {"x": "float32[2]"}, ["x is float32[2], was none"]),
        ("collectives", SENT, {**SENT, "bytes": {"all-reduce over model": 90}}, []),
        (
            "collectives",
            SENT,
            {"bytes": {"all-reduce over model": 50, "all-gather over data": 8}, "places": {}},
            ["all-gather over data: 8 bytes a step, were 0"],
        ),
    ],
)
def test_difference(name, before, now, says):
    assert differences(name, before, now) == says


@pytest.fixture
def root(tmp_path):
    (tmp_path / ".redco").mkdir()
    return tmp_path


def test_facts_come_back(root):
    assert read_facts(root) is None
    facts = Facts(VALUES, {"a.py": {"f": "1"}}, {"jax": "1"})
    assert write_facts(root, facts) and not write_facts(root, facts)
    assert read_facts(root) == facts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"schema": 2}', "newer redco"),
        ('{"schema": 1, "facts": {"loss": 3}, "symbols": {}, "versions": {}}', "the fact 'loss'"),
        ('{"schema": 1, "facts": {"sharded": 3}, "symbols": {}, "versions": {}}', "'sharded'"),
        ('{"schema": 1, "facts": {}, "symbols": {"a": 1}, "versions": {}}', "symbols or versions"),
    ],
)
def test_damaged_facts_are_refused(root, text, says):
    (root / FILE).write_text(text)
    with pytest.raises(RedcoError, match=says):
        read_facts(root)


def test_what_is_kept(root):
    """What has not changed stays as it was, so that nothing drifts; less sent is kept; what is not accepted is not."""
    before = Facts({"loss": LOSS, "collectives": SENT, "order": ["a"]}, {}, {})
    near = {**LOSS, "loss": [5.00001, 4.0]}
    less = {"bytes": {"all-reduce over model": 90}, "places": {}}
    now = Facts({"loss": near, "collectives": less, "order": ["b"]}, {"a.py": {"f": "2"}}, {})
    _keep(root, before, now, {"order"})
    kept = json.loads((root / FILE).read_text())
    assert kept["facts"] == {"loss": LOSS, "collectives": less, "order": ["a"]}
    assert kept["symbols"] == {}  # the edit of which the order is another is not yet accepted
    _keep(root, before, now, {})
    kept = json.loads((root / FILE).read_text())
    assert (kept["facts"]["order"], kept["symbols"]) == (["b"], now.symbols)
