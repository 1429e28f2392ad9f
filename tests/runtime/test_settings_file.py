"""A run's settings in a file: what it may say, what wins, what is refused, and what a run writes of it."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from redco_runtime.loop import command as cli
from redco_runtime.base.messages import UserError


@dataclass(frozen=True)
class Data:
    files: tuple[str, ...] = ()
    shuffle: bool = True


@dataclass(frozen=True)
class Model:
    width: int = 4


@dataclass(frozen=True)
class Optimizer:
    learning_rate: float = 1e-4
    learning_rate_decay: Literal["cosine", "linear"] = "cosine"


@dataclass(frozen=True)
class Train:
    steps: int = 100
    epochs: float = 0.0


@dataclass(frozen=True)
class Config:
    model: Model = field(default_factory=Model)
    data: Data = field(default_factory=Data)
    optimizer: Optimizer = field(default_factory=Optimizer)
    train: Train = field(default_factory=Train)


PRESETS = {"full": Config(), "tiny": Config(train=Train(epochs=2.0))}
FILE = """# mine
workdir = "runs/a"  # where
preset = "tiny"
virtual-devices = 2
learning-rate = 3e-4

[data]
files = ["a \\" b", "\\u007f"]
shuffle = false

[optimizer]
schedule = "linear"
"""


@pytest.fixture
def parse(monkeypatch, tmp_path):
    """parse(text, *flags): the run of a file and flags."""

    def parse(text, *flags):
        path = tmp_path / "run.toml"
        path.write_text(text)
        monkeypatch.setattr("sys.argv", ["train", "--settings", str(path), *flags])
        return cli.training_run("Train.", PRESETS, {"data": -1})

    return parse


def test_a_file_says_what_flags_say(parse):
    text = FILE
    run = parse(text)
    assert run.config.data == Data(('a " b', "\x7f"), False)
    assert run.config.optimizer == Optimizer(3e-4, "linear")
    assert (str(run.workdir), run.virtual_devices, run.config.train.epochs) == ("runs/a", 2, 2.0)


def test_flags_win_over_the_file(parse):
    flags = "--learning-rate 1e-3 --preset full --workdir w --files c".split()
    run = parse(FILE, *flags)
    assert run.config.optimizer.learning_rate == 1e-3 and run.config.data.files == ("c",)
    assert str(run.workdir) == "w" and run.config.train.epochs == 0.0


def test_what_a_run_was_given_is_such_a_file(parse):
    run = parse(FILE, "--learning-rate", "1e-3")
    assert "learning_rate = 0.001" in run.settings and "runs/a" not in run.settings
    again = parse(run.settings, "--workdir", "w")
    assert (again.config, again.virtual_devices, again.settings) == (run.config, 2, run.settings)


def test_a_run_is_so_many_steps_or_epochs_long(parse):
    with pytest.raises(UserError, match="--epochs: --steps says how long a run is, too"):
        parse("workdir = 'w'\nsteps = 3", "--epochs", "2")
    train = parse("workdir = 'w'\npreset = 'tiny'", "--steps", "7").config.train
    assert train == Train(steps=7)  # not the epochs that the preset has


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat = 1", "learning_rat: no setting is called so: did you mean learning_rate?"),
        ("[optimiser]\na = 1", r"\[optimiser\]: no section .* did you mean optimizer?"),
        ("[train]\nlearning_rate = 1", r"\[train\] learning_rate: no setting .*: give one of ep"),
        ("[train]\nstep = 1", r"\[train\] step: no setting is called so: did you mean steps?"),
        ("settings = 'b'", "settings: no setting is called so"),
        ("steps = 1\n[train]\nsteps = 2", "steps: it is set twice: leave one out"),
        ("steps = 1.5", "steps: 1.5: it is no whole number"),
        ("learning_rate = 'x'", "learning_rate: 'x': it is no number"),
        ("shuffle = 1", "shuffle: 1: it is no true or false"),
        ("learning_rate = [1]", r"learning_rate: \[1\]: give one value, and no list"),
        ("files = 'a'", "files: 'a': give a list of values"),
        ("preset = 'huge'", "preset: 'huge': give one of full, tiny"),
        ("virtual_devices = 0", "virtual_devices: 0: '0' is not a number above 0"),
        ("workdir = 'az://a'", "workdir: 'az://a': 'az://a' is no path"),
        ("steps = ", "is no TOML: "),
        ("a = " + "[" * 9999, "is no TOML: "),
        ("steps = 1\n\0", "is no TOML: "),
    ],
)
def test_what_no_run_can_be_given_is_one_line(parse, text, message):
    with pytest.raises(UserError, match=f"^--settings: .*run.toml:? {message}") as error:
        parse(text, "--workdir", "w")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("sys.argv", ["train", "--workdir", "w", "--settings", "nowhere.toml"])
    with pytest.raises(UserError, match="^--settings: nowhere.toml: No such file"):
        cli.training_run("Train.", PRESETS, {"data": -1})
