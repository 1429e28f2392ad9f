"""The report of `redco inspect`."""

import json
from types import SimpleNamespace

import samples

from redco_new.inspect import report


def text_of(capsys, plan=samples.PLAN):
    report("gpt-j", plan, as_json=False)
    return capsys.readouterr().out


def test_json(capsys):
    report("gpt-j", samples.PLAN, as_json=True)
    out = json.loads(capsys.readouterr().out)
    assert out == {"mesh": {"data": 1, "fsdp": 2, "model": 4}, "parameters": samples.PLAN.rows()}


def test_table(capsys):
    lines = [line.split() for line in text_of(capsys).splitlines()]
    assert "gpt-j on the mesh data 1, fsdp 2, model 4".split() in lines
    head = 'embed/embedding 1600 512 vocab embed P("model", "fsdp") 400 256 rows of the vocab'
    assert head.split() in lines
    assert "scale scalar P() scalar a norm".split() in lines


def test_table_folds_nothing_where_there_is_no_terminal(capsys):
    reason = "because " * 12
    row = {**samples.PLAN.rows()[0], "reason": reason.strip()}
    plan = SimpleNamespace(mesh=samples.PLAN.mesh, rows=lambda: [row], warnings=())
    assert reason.strip() in text_of(capsys, plan)


def test_totals(capsys):
    text = text_of(capsys)
    assert "parameters  1,319,201 in 3 arrays" in text
    # 819,200 * 4 / 8 + 500,000 * 4 + 4 bytes
    assert "bytes       5.3 MB in all, 2.4 MB on each device" in text


def test_large_parameters_that_stay_whole(capsys):
    assert "whole       pos/embedding, 2.0 MB: its class is not split" in text_of(capsys)
    assert text_of(capsys).count("whole ") == 1
    rows = samples.PLAN.rows()[:1]
    plan = SimpleNamespace(mesh=samples.PLAN.mesh, rows=lambda: rows, warnings=())
    assert "whole       nothing over 1.0 MB is left whole" in text_of(capsys, plan)


def test_one_device_leaves_nothing_to_say_of_whole_ones(capsys):
    mesh = {"data": 1, "fsdp": 1, "model": 1}
    plan = SimpleNamespace(mesh=mesh, rows=samples.PLAN.rows, warnings=())
    assert "whole" not in text_of(capsys, plan)


def test_warnings(capsys):
    assert "warning: no rule for the primitive foo" in text_of(capsys)
