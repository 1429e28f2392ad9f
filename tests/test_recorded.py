"""A model as redco remembers it is the model that was found, and no other."""

import json
import shutil
from pathlib import Path

import pytest

from redco_new.models import recorded
from redco_new.models.families import FAMILIES
from redco_new.models.find import find_model
from redco_new.models.recorded import recall, record

HERE = Path()
SIZES = [(family.name, size) for family in FAMILIES.values() for size in family.sizes]
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 96}


@pytest.mark.parametrize("name, size", SIZES, ids="-".join)
@pytest.mark.parametrize("shards", [1, 4])
def test_it_is_the_same_model(name, size, shards):
    model = find_model(name, size, shards)
    found = json.loads(json.dumps(record(model, name, size, shards, HERE), sort_keys=True))
    again = recall(found, name, size, shards, HERE)
    assert repr(again) == repr(model), "the order of keys and the kinds of values too"


def test_another_one_is_not_recalled(monkeypatch):
    found = record(find_model("gpt-j", "", 4), "gpt-j", "", 4, HERE)
    assert recall(found, "gpt-j", "", 4, HERE)
    assert recall(None, "gpt-j", "", 4, HERE) is None
    assert recall(found, "gpt-j", "", 8, HERE) is None
    assert recall(found, "gpt-j", "6b", 4, HERE) is None
    assert recall(found, "gpt2", "", 4, HERE) is None
    assert recall({**found, "found": "(1,"}, "gpt-j", "", 4, HERE) is None
    assert recall({"key": found["key"]}, "gpt-j", "", 4, HERE) is None
    monkeypatch.setattr(recorded, "code_version", lambda: "of another version")
    assert recall(found, "gpt-j", "", 4, HERE) is None


def checkpoint(folder, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA | changes))
    return str(folder)


def test_a_checkpoint_is_read_again_once_it_changes(tmp_path):
    name = checkpoint(tmp_path / "mine")
    found = record(find_model(name, "", 2), name, "", 2, HERE)
    assert recall(found, name, "", 2, HERE).full.sizes["embed_dim"] == 64
    checkpoint(tmp_path / "mine", hidden_size=128)
    assert recall(found, name, "", 2, HERE) is None


def test_a_checkpoint_that_is_not_there_is_known_by_its_config(tmp_path):
    name = checkpoint(tmp_path / "mine")
    model = find_model(name, "", 2)
    found = record(model, name, "", 2, HERE)
    shutil.rmtree(tmp_path / "mine")
    assert recall(found, name, "", 2, HERE) is None, "for it might have changed"
    again = find_model(name, "", 2, source=found["source"])
    assert again.absent and again.full == model.full
    later = record(again, name, "", 2, HERE)
    assert recall(later, name, "", 2, HERE).absent


def test_an_id_of_the_hub_is_always_looked_up(tmp_path):
    model = find_model(checkpoint(tmp_path / "mine"), "", 1)
    assert recall(record(model, "org/name", "", 1, HERE), "org/name", "", 1, HERE) is None
