"""What --push of export.py sends: a card of the run, what was exported, where the user said."""

import argparse
import json
from types import SimpleNamespace

import pytest
from linear import Config, Train

from redco_runtime.base.messages import UserError
from redco_runtime.checkpoints import publish
from redco_runtime.run.record import Run

CARD = """---
base_model: org/base
library_name: transformers
license: apache-2.0
---
# tuned

| | |
|---|---|
| base | org/base |
| data | what examples() in pipeline.py makes |
| steps | 8, of {rows} rows each |
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/config.json").write_text("{}")
    lines = [{"step": 4, "loss": 2.5}, {"step": 8, "loss": 2.25}, {"step": 12, "loss": 9.0}]
    (tmp_path / "eval.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    (tmp_path / "events.jsonl").write_text("")
    return Run(tmp_path, Config(train=Train()), {"data": 2, "model": 1}, None, "org/base")


@pytest.fixture
def hub(monkeypatch):
    """What the hub is told; `fails` has what it answers."""
    told = SimpleNamespace(calls=[], fails=None)

    class Api:
        def create_repo(self, name, **settings):
            if told.fails:
                raise told.fails
            told.calls.append(("create", name, settings))

        def upload_folder(self, repo_id, folder_path, commit_message):
            files = {path.name: path.read_text() for path in folder_path.iterdir()}
            told.calls.append(("upload", repo_id, files))

    def load(name):
        assert name == "org/base"
        return SimpleNamespace(data=SimpleNamespace(license="apache-2.0"))

    monkeypatch.setattr(publish, "HfApi", Api)
    monkeypatch.setattr(publish.ModelCard, "load", load)
    return told


def send(run, push):
    publish.publish(SimpleNamespace(push=push, out=run.workdir / "out"), run, 8)


def test_nothing_is_sent_unasked(run, hub):
    send(run, None)
    assert hub.calls == [] and not (run.workdir / "out/README.md").exists()


def test_a_private_model_with_a_card(run, hub, capsys):
    send(run, "org/tuned")
    create, upload = hub.calls
    assert create == ("create", "org/tuned", {"private": True, "exist_ok": True})
    assert upload[1] == "org/tuned" and upload[2].keys() == {"config.json", "README.md"}
    text = upload[2]["README.md"]
    assert text.startswith(CARD.format(rows=Train().batch_size))
    assert "| held-out loss | 2.2500 at step 8 |\n" in text and "| mesh | data=2 model=1 |" in text
    assert capsys.readouterr().out == "sent to org/tuned\n"


def test_a_hub_that_does_not_take_it_leaves_what_was_exported(run, hub):
    hub.fails = OSError("403 Forbidden\nmore of it")
    with pytest.raises(
        UserError, match="org/tuned does not take it: 403 Forbidden; it is in .*out"
    ):
        send(run, "org/tuned")
    assert (run.workdir / "out/config.json").exists()


@pytest.mark.parametrize(
    ("name", "token", "why"),
    [
        ("tuned", "hf_x", "'tuned' has no owner"),
        ("org/a b", "hf_x", "Repo id must use alphanumeric"),
        ("org/tuned", None, "no token of the hub"),
    ],
)
def test_a_name_that_cannot_be_is_refused_before_anything_is_read(monkeypatch, name, token, why):
    monkeypatch.setattr(publish, "get_token", lambda: token)
    with pytest.raises(argparse.ArgumentTypeError, match=why):
        publish.hub_name(name)
