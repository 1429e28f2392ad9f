import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from redco_runtime.loop import command as cli
from redco_runtime.checkpoints.lora.lora import Lora
from redco_runtime.base.messages import UserError
from redco_runtime.run.record import Run

AXES = {"data": -1, "fsdp": 1, "model": 2}


@dataclass(frozen=True)
class Model:
    width: int = 4
    heads: int = 2

    def __post_init__(self):
        if self.width < 1:
            raise ValueError(f"width {self.width} is not above 0")
        if self.width % self.heads:
            raise ValueError(f"heads {self.heads} must divide width {self.width}")


@dataclass(frozen=True)
class Data:
    files: tuple[str, ...] = ()
    held_out: float = 0.5  # share, at most 100 %
    tokenizer: str = "bytes"
    shuffle: bool = True
    order: Literal["random", "sorted"] = "random"
    sizes: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Config:
    model: Model = field(default_factory=Model)
    data: Data = field(default_factory=Data)


PRESETS = {"full": Config(), "tiny": Config(Model(width=2))}


@pytest.fixture
def parse(monkeypatch):
    def parse(*args):
        monkeypatch.setattr("sys.argv", ["train", "--workdir", "run", *args])
        return cli.training_run("Train.", PRESETS, AXES)

    return parse


def test_the_first_preset_and_the_mesh_of_the_project_are_the_defaults(parse):
    assert parse() == Run(Path("run"), Config(), AXES, None)


@pytest.mark.parametrize("init", ["a", "a/checkpoints"])
def test_a_run_reads_texts_as_the_one_that_it_starts_from(monkeypatch, tmp_path, init):
    monkeypatch.chdir(tmp_path)

    def tokenizer(*flags):
        monkeypatch.setattr("sys.argv", ["train", "--preset", "tiny", "--workdir", "b", *flags])
        return cli.training_run("Train.", PRESETS, AXES).config.data.tokenizer

    record = {"config": {"data": {"tokenizer": "other"}}, "mesh": {}, "virtual_devices": None}
    for folder, own in (("a", "other"), ("b", "older")):
        assert tokenizer("--init", init) == ("other" if folder == "b" else "bytes")
        record["config"]["data"]["tokenizer"] = own
        (tmp_path / folder / "checkpoints").mkdir(parents=True)
        (tmp_path / folder / "run.json").write_text(json.dumps(record | {"init": init}))
    assert tokenizer() == tokenizer("--init", init) == "older"  # as the run was begun
    assert tokenizer("--init", init, "--tokenizer", "third") == "third"


@dataclass(frozen=True)
class Two(Config):
    teacher: Model = field(default_factory=Model)


def test_a_second_section_of_a_class_has_flags_of_its_own(monkeypatch):
    flags = ["--width", "6", "--teacher-width", "8"]
    monkeypatch.setattr("sys.argv", ["train", "--workdir", "run", *flags])
    config = cli.training_run("Train.", {"full": Two()}, AXES).config
    assert (config.model, config.teacher) == (Model(width=6), Model(width=8))


def test_every_setting_is_a_flag_of_its_type(parse):
    run = parse(
        *("--preset tiny --virtual-devices 2 --mesh data=2 --width 6 --held-out 0.1".split()),
        *("--tokenizer other --files a b --shuffle false --sizes 2 3".split()),
    )
    assert run.config == Config(Model(6), Data(("a", "b"), 0.1, "other", False, sizes=(2, 3)))
    assert run.mesh == {"data": 2, "fsdp": 1, "model": 1}
    assert run.virtual_devices == 2


def test_a_setting_that_the_config_refuses_is_named_by_its_flag(parse):
    with pytest.raises(UserError, match="--width: heads 2 must divide width 5"):
        parse("--width", "5")


def test_a_setting_is_one_of_its_choices(parse, monkeypatch):
    assert parse("--order", "sorted").config.data.order == "sorted"
    with pytest.raises(UserError, match="^--order: order 'odd' is none of random, sorted"):
        parse("--order", "odd", "--width", "6")
    monkeypatch.setitem(PRESETS, "full", Config(data=Data(order="none")))
    with pytest.raises(UserError, match="config.py: order 'none' is none of random, sorted"):
        parse()


def test_settings_that_fit_only_together_are_taken_together(parse):
    assert parse("--width", "9", "--heads", "3").config.model == Model(9, 3)
    with pytest.raises(UserError, match="--width, --heads: heads 2 must divide width 9"):
        parse("--heads", "2", "--width", "9")


@pytest.mark.parametrize(
    "args", [("--width", "x"), ("--virtual-devices", "0"), ("--nonsense", "2"), ("--shuffle", "no")]
)
def test_usage_errors(parse, args, capsys):
    with pytest.raises(SystemExit) as error:
        parse(*args)
    assert error.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and message.endswith(": --help lists the flags\n")
    assert message.count("\n") == 1


def test_a_project_without_data_says_where_its_examples_are(parse, capsys):
    with pytest.raises(SystemExit):
        parse("--data", "a.jsonl")
    assert capsys.readouterr().err == (
        "error: unrecognized arguments: --data a.jsonl: --help lists the flags; what is trained on is what "
        "examples() in pipeline.py gives\n"
    )


def test_a_fault_of_config_alone_is_of_no_flag(monkeypatch, parse):
    monkeypatch.setitem(PRESETS, "full", Config(data=Data(order="no")))
    with pytest.raises(UserError, match="^config.py: order .no. is none of"):
        parse("--width", "2")


def test_a_flag_that_is_nearly_one_is_answered_by_that(parse, capsys):
    with pytest.raises(SystemExit):
        parse("--wid", "2")
    assert capsys.readouterr().err.endswith(
        "--wid 2: --help lists the flags; did you mean --width?\n"
    )


def test_a_recorded_run_is_taken_as_it_was_or_on_another_mesh(tmp_path):
    run = Run(tmp_path, Config(), AXES, 4)
    run.save()
    args = argparse.Namespace(workdir=tmp_path, mesh=None, virtual_devices=None)
    assert cli.recorded_run(args, Config, AXES) == run
    args.mesh = "data=1"
    other = cli.recorded_run(args, Config, AXES)
    assert other.mesh == dict.fromkeys(AXES, 1) and other.virtual_devices is None


def test_a_recorded_run_takes_the_axes_that_sharding_has_by_now(tmp_path):
    Run(tmp_path, Config(), AXES, 4).save()
    args = argparse.Namespace(workdir=tmp_path, mesh=None, virtual_devices=None)
    now = {"data": -1, "model_1": 2, "model_2": 2}
    found = cli.recorded_run(args, Config, now)
    assert (found.mesh, found.virtual_devices) == (now, 4)


def test_a_user_error_is_one_message_and_exit_code_2(capsys):
    @cli.command
    def main():
        raise UserError("where: what: what to do")

    with pytest.raises(SystemExit) as error:
        main()
    assert error.value.code == 2
    assert capsys.readouterr().err == "error: where: what: what to do\n"


def test_an_interrupt_is_one_line(capsys):
    @cli.command
    def main():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as error:
        main()
    assert error.value.code == 130
    assert "goes on from the last checkpoint" in capsys.readouterr().err


def test_the_best_checkpoint_can_be_named(tmp_path):
    parser = cli.program_parser("Predict.", SimpleNamespace())
    args = parser.parse_args(["--workdir", "w", "--best", "f1"])
    run = Run(tmp_path, Config(), {}, None)
    with pytest.raises(UserError, match="--best: .* by 'f1': leave --best out"):
        run.checkpoints_by(args.best)
    (tmp_path / "checkpoints-best" / "f1").mkdir(parents=True)
    (tmp_path / "checkpoints-best" / "f1.json").touch()
    assert run.checkpoints_by(args.best) == tmp_path / "checkpoints-best/f1"
    with pytest.raises(UserError, match="--best: .* no best checkpoint by 'em': choose f1$"):
        run.checkpoints_by("em")
    assert run.checkpoints_by(parser.parse_args(["--workdir", "w"]).best) == run.checkpoints


def test_the_help_has_what_config_says_of_each_setting_and_its_values(parse, capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    out = " ".join(capsys.readouterr().out.split())
    assert "--held-out HELD_OUT share, at most 100 % [0.5]" in out
    assert "--width WIDTH model.width [full: 4; tiny: 2]" in out
    assert "--shuffle SHUFFLE data.shuffle [true]" in out and "data.files --held-out" in out


def test_rows_are_shown_by_a_program_that_needs_no_work_folder(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["/x/project/prepare.py", "--preview", "3"])
    run = cli.training_run("Prepare.", PRESETS, AXES, preview=True)
    assert run.preview == 3 and run.workdir == Path()
    monkeypatch.setattr("sys.argv", ["/x/project/train.py", "--workdir", "a", "--preview", "3"])
    with pytest.raises(SystemExit) as end:
        cli.training_run("Train.", PRESETS, AXES)
    assert end.value.code == 2
    assert "python -m project.prepare --preview N shows rows" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["az://bucket/run", "s3:/bucket/run", "hdfs://a/b", "x+y://a"])
@pytest.mark.parametrize("flag", ["--workdir", "--settings", "--tokenizer"])
def test_no_path_with_a_scheme_is_taken_for_a_folder(flag, path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["train", "--workdir", "a", flag, path])
    try:
        cli.training_run("Train.", PRESETS, AXES)
    except SystemExit as end:
        message = capsys.readouterr().err if end.code == 2 else ""
    except UserError as error:
        message = str(error)
    assert f"{flag}: {path!r} is no path here" in message.replace("argument ", "")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("flag", ["--workdir", "--init"])
@pytest.mark.parametrize(("scheme", "package"), [("gs", "gcsfs"), ("s3", "s3fs")])
def test_a_bucket_without_its_package_is_refused(flag, scheme, package, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["train", "--workdir", "a", flag, f"{scheme}://b/run"])
    with pytest.raises((SystemExit, UserError)) as end:
        cli.training_run("Train.", PRESETS, AXES)
    message = f"{end.value}{capsys.readouterr().err}"
    assert f"'{scheme}://b/run': to open it, pip install {package}" in message


@pytest.mark.parametrize(
    ("flags", "init"),
    [
        ([], "/weights"),
        (["--preset", "tiny"], None),
        (["--preset", "same"], "/weights"),
        (["--init", "none"], None),
        (["--preset", "tiny", "--init", "other"], "other"),
    ],
)
def test_the_sizes_of_a_checkpoint_start_from_it(monkeypatch, tmp_path, flags, init):
    monkeypatch.setattr("sys.argv", ["train", "--workdir", str(tmp_path), *flags])
    presets = PRESETS | {"same": Config(data=Data(held_out=0.1))}
    assert cli.training_run("Train.", presets, AXES, "/weights").init == init
    record = Run(tmp_path, Config(), AXES, None, "before").record()
    (tmp_path / "run.json").write_text(json.dumps(record))
    again = cli.training_run("Train.", presets, AXES, "/weights").init
    assert again == (init if "--init" in flags else "before")


def test_an_adapter_of_random_numbers_is_asked_for_by_name(monkeypatch, tmp_path):
    @dataclass(frozen=True)
    class Tuned(Config):
        lora: Lora = field(default_factory=Lora)

    presets = {"full": Tuned(), "tiny": Tuned(Model(width=2))}

    def init(*flags):
        monkeypatch.setattr("sys.argv", ["train", "--workdir", str(tmp_path), *flags])
        return cli.training_run("Train.", presets, AXES).init

    with pytest.raises(UserError, match="--init: an adapter is of a model that was trained"):
        init()
    assert init("--init", "none") is init("--preset", "tiny") is None
    assert init("--init", "a") == "a"
