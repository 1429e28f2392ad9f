"""What predict.py is asked, and how it answers, with a model that repeats prompts."""

import argparse
import io
import json
from dataclasses import dataclass
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from redco_runtime.base import messages
from redco_runtime.data.chats.reading import with_system
from redco_runtime.loop.command import recorded_run
from redco_runtime.base.messages import UserError
from redco_runtime.loop.evaluation import Inference
from redco_runtime.loop.predicting import answer, prompt_options, read_prompts
from redco_runtime.run.record import Run
from redco_runtime.loop.talking import talk


@dataclass(frozen=True)
class Train:
    seed: int = 3
    batch_size: int = 2


@dataclass(frozen=True)
class Data:
    text_field: str = "words"


@dataclass(frozen=True)
class Config:
    train: Train = Train()
    data: Data = Data()


class Echo:
    """A pipeline of chats: the answer is the contents of all messages, and the seed."""

    def prompts(self, config, texts):
        if "bad" in texts:
            raise UserError("--prompt: it is bad: give another")
        chats = [[{"content": x}] if isinstance(x, str) else x for x in texts]
        return [{"chat": chat, "seed": config.train.seed} for chat in chats]

    def collate(self, examples):
        return {"seed": np.array([one["seed"] for one in examples])}

    def decode(self, config, outputs, examples):
        said = ("|".join(one["content"] for one in row["chat"]) for row in examples)
        return [f"{text}#{seed}" for text, seed in zip(said, outputs, strict=True)]


@pytest.fixture
def ask(monkeypatch):
    """Runs predict.py with these arguments."""
    monkeypatch.setattr(messages, "_QUIET", [])
    sharding = NamedSharding(jax.make_mesh((1,), ("data",), devices=jax.devices()[:1]), P("data"))

    def run(*words, fields=("prompt",), continues=False):
        parser = prompt_options(argparse.ArgumentParser(), Echo(), with_system, talk)
        args = parser.parse_args(words)
        predict = jax.jit(lambda model, batch, key: batch["seed"])
        steps = SimpleNamespace(batch=sharding, predict=predict, shapes={})
        answer(args, Inference(steps, Echo(), Config()), None, fields, continues)

    return run


def test_the_seed_is_a_flag(tmp_path):
    Run(tmp_path, Config(), {}, None).save()
    parser = prompt_options(argparse.ArgumentParser(), Echo())
    args = parser.parse_args(["--prompt", "a", "--seed", "7"])
    args.workdir, args.mesh, args.virtual_devices = tmp_path, None, None
    assert recorded_run(args, Config, {}).config.train == Train(seed=7)


def test_prompts_are_answered_one_a_line(ask, capsys):
    ask("--prompt", "a", "--prompt", "b", "--system", "S")
    assert capsys.readouterr().out == "a -> S|a#3\nb -> S|b#3\n"
    ask("--prompt", "a", continues=True)
    assert capsys.readouterr().out == "aa#3\n"


def test_rows_of_a_file_come_out_with_their_predictions(ask, tmp_path, capsys):
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "gold"}]
    rows = [{"prompt": "a", "id": 7}, {"messages": chat}, {"words": "ü", "prompt": "not this"}]
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text("\n\n".join(map(json.dumps, rows)))
    ask("--file", str(file), "--out", str(out), fields=("messages", "prompt"))
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert found == [row | {"prediction": f"{x}#3"} for row, x in zip(rows, "aqü", strict=True)]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
    assert capsys.readouterr().out == f"{out} has what became of them\n"


def test_a_text_is_a_prompt_a_line_and_stdout_has_the_rows_alone(ask, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("a\n\nb b\nc\n")
    ask("--file", str(tmp_path / "in.txt"))
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["prediction"] for line in lines] == ["a#3", "b b#3", "c#3"]
    messages.show("a note")
    assert capsys.readouterr() == ("", "a note\n")


def test_a_row_is_its_prompt_where_a_recipe_says_so_and_paths_are_beside_the_file(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"file_name": "x.png"}')
    (tmp_path / "x.png").touch()
    (row,) = read_prompts(tmp_path / "a.jsonl", None, ())
    assert row.prompt == '{"file_name": "x.png"}'
    (row,) = read_prompts(tmp_path / "a.jsonl", None, ("image", "file_name"))
    assert row.prompt == str(tmp_path / "x.png")
    (tmp_path / "a.jsonl").write_text('{"image": "x.png", "label": "cat"}')  # as it is learned from
    (row,) = read_prompts(tmp_path / "a.jsonl", None, ("image", "file_name"))
    assert row.prompt == str(tmp_path / "x.png")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"prompt": "a"}\n{"other": 1}',
            "line 2: has other, and a prompt is one of 'words', 'prompt', 'question'",
        ),
        ('{"prompt": "a"}\n{', "line 2: is not JSON"),
        ('{"prompt": "a\u2028b"}\n{"prompt": "\\ud83d"}', "line 2: is not JSON: it has half a"),
        ('{"prompt": "a"}\n\n{"prompt": "bad"}', "line 3: it is bad: give another"),
        ("", "has no prompt: it is empty"),
    ],
)
def test_what_is_no_prompt_is_named_with_its_line(ask, tmp_path, text, message):
    (tmp_path / "in.jsonl").write_text(text)
    with pytest.raises(UserError, match=message):
        ask("--file", str(tmp_path / "in.jsonl"))


def test_a_chat_goes_on_until_its_input_ends(ask, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("hi\n\nand?\n"))
    ask("--chat", "--system", "S")
    assert capsys.readouterr().out == "S|hi#3\nS|hi|S|hi#3|and?#4\n"


def test_a_folder_for_no_file_is_refused(ask, tmp_path):
    with pytest.raises(UserError, match="--out: it is of --file"):
        ask("--prompt", "a", "--out", str(tmp_path / "x"))
    with pytest.raises(UserError, match="--file: .* cannot be read"):
        ask("--file", str(tmp_path / "nowhere"))
