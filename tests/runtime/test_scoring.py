"""What is evaluated, and what is said of it."""

from argparse import Namespace
from dataclasses import dataclass
from types import SimpleNamespace

from redco_runtime.base.messages import announce, announce_training
from redco_runtime.loop.scoring import evaluated_run, examples_of
from redco_runtime.run.record import Run


@dataclass(frozen=True)
class Data:
    data: tuple[str, ...] = ("train.jsonl",)
    held_out_data: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    data: Data = Data()


def read(config):
    announce(f"read: {config.data.held_out_data}")
    announce_training("3 of 3 that are held out are trained on too")
    return [], [1, 2, 3]


def said(files, tmp_path, capsys):
    announce.cache_clear()
    args = Namespace(json=False, data=files, rows=0)
    config = evaluated_run(args, Run(tmp_path, Config(), {}, 1)).config
    assert len(examples_of(args, SimpleNamespace(examples=read), config)) == 3
    return capsys.readouterr().out.splitlines()


def test_what_is_evaluated_is_not_said_to_be_trained_on_unless_it_is(tmp_path, capsys):
    """All of --data was said to be trained on, whatever file it was: pipelines read it as both."""
    assert said(["test.jsonl"], tmp_path, capsys) == ["read: ('test.jsonl',)"]
    assert said(["./train.jsonl"], tmp_path, capsys) == [
        "--data: ./train.jsonl: the run was trained on it, so that its figures say nothing of other data",
        "read: ('./train.jsonl',)",
    ]
    assert said(None, tmp_path, capsys) == [
        "read: ()",
        "3 of 3 that are held out are trained on too",
    ]
