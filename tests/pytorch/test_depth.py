"""A class of many layers is traced as one of few that has the same program, and printed as with all."""

from dataclasses import replace
from pathlib import Path

import pytest

from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input

CALL = Call({"x": Input((12, 16))})
LAYERS = ("model", "layers")


def reference():
    return find_reference("--model", "nets_depth.py:Deep", Path(__file__).parent)


def few_layers(**arguments):
    """Return how many layers are traced, what the class is made with then, and whether weights are drawn by how many there are."""
    from redco_new.pytorch.depth import with_few_layers
    from redco_new.pytorch.setting import Setting
    from redco_new.pytorch.subject import read_subject

    subject = read_subject(reference(), "--config", arguments, CALL)
    setting = Setting(subject.arguments, CALL.inputs)
    way, few = with_few_layers(subject.ways[0], setting)
    assert way.layers == ({} if few is setting else {LAYERS: setting.get(LAYERS)})
    return few.get(LAYERS), few.arguments, way.drawn_by_layers


@pytest.mark.parametrize(
    "arguments, layers",
    [
        ({}, 2),
        ({"layers": 4}, 4),  # are traced at once
        ({"turn": 3}, 6),
        ({"first": 1}, 3),
        ({"first": 3, "layers": 40}, 7),  # fewer would be three, and some after them
        ({"turn": 5}, 12),  # two are left
        ({"scaled": "count"}, 12),
        ({"scaled": "place"}, 12),
        ({"drawn": "count"}, 2),
        ({"drawn": "place"}, 12),
        ({"faded": True}, 12),
        ({"lends": True}, 3),
    ],
)
def test_as_few_layers_are_traced_as_the_whole_program_has(arguments, layers):
    few, _, drawn = few_layers(**arguments)
    assert (few, drawn) == (layers, arguments.get("drawn") == "count")


def test_how_many_layers_it_needs_is_known_before_anything_is_exported(monkeypatch):
    import torch

    monkeypatch.delattr(torch.export, "export")
    assert few_layers(turn=3)[0] == 6


def test_what_is_listed_for_each_layer_is_of_as_many():
    few, arguments, _ = few_layers(layers=6, kinds=["", "plain"] * 3)
    assert few == 4 and arguments["kinds"] == ["", "plain"] * 2


@pytest.mark.parametrize(
    "arguments",
    [{"drawn": "count", "first": 2, "layers": 9}, {"lends": True, "layers": 7}],
)
def test_it_is_printed_as_with_all(arguments, monkeypatch):
    from redco_new.pytorch import depth
    from redco_new.pytorch.make import print_class

    printed = print_class(reference(), "--config", arguments, CALL)
    monkeypatch.setattr(depth, "MANY", 100)
    assert (
        replace(print_class(reference(), "--config", arguments, CALL), gate=printed.gate) == printed
    )
    assert "splits=config.layers" in printed.source
