import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import jax
import pytest

from redco_runtime.checkpoints.lora.lora import Lora
from redco_runtime.loop.command import begun_with
from redco_runtime.base.messages import UserError
from redco_runtime.base.together import wait_for_all
from redco_runtime.run.record import Run, load_run


@dataclass(frozen=True)
class Model:
    width: int = 4
    names: tuple[str, ...] = ("a", "b")

    def __post_init__(self):
        if self.width < 1:
            raise ValueError(f"width {self.width} is not above 0")


@dataclass(frozen=True)
class Config:
    model: Model = field(default_factory=Model)


AXES = {"data": -1, "fsdp": 1, "model": 2}


def test_a_run_comes_back_as_it_was_saved(tmp_path):
    run = Run(tmp_path / "new" / "run", Config(Model(width=8)), AXES, 4)
    run.save()
    assert load_run(run.workdir, Config) == run
    run.save()


def test_another_model_in_the_same_folder_is_refused_by_what_differs(tmp_path):
    Run(tmp_path, Config(), AXES, 4).save()
    with pytest.raises(UserError, match="width was 4 and is 8; choose the model of that run"):
        Run(tmp_path, Config(Model(width=8)), AXES, 4).save()
    assert load_run(tmp_path, Config).config == Config()


@dataclass(frozen=True)
class Spread(Model):
    kv_copies: int = 2
    remat: str = "everything_saveable"


@dataclass(frozen=True)
class SpreadConfig:
    model: Spread = field(default_factory=Spread)


def test_how_a_model_is_spread_over_devices_may_change(tmp_path):
    spread = Run(tmp_path, SpreadConfig(), AXES, 4)
    Run(tmp_path, Config(), AXES, 4).save()
    spread.save(begun=True)
    assert load_run(tmp_path, SpreadConfig) == spread
    assert load_run(tmp_path, Config) == Run(tmp_path, Config(), AXES, 4)
    Run(tmp_path, SpreadConfig(Spread(remat="nothing_saveable")), AXES, 4).save(begun=True)
    with pytest.raises(UserError, match=f"width was 4 and is 8; .*--init {tmp_path} starts"):
        Run(tmp_path, SpreadConfig(Spread(width=8)), AXES, 4).save(begun=True)


def test_what_a_run_started_from_stays_recorded_once_it_has_a_checkpoint(tmp_path):
    run = Run(tmp_path, Config(), AXES, 4, "org/name")
    Run(tmp_path, Config(), AXES, 4, "org/wrong").save()
    run.save()
    Run(tmp_path, Config(), AXES, 4).save(begun=True)
    run.save(begun=True)
    assert load_run(tmp_path, Config) == run
    with pytest.raises(UserError, match="has started, from org/name: leave --init out"):
        Run(tmp_path, Config(), AXES, 4, "org/other").save(begun=True)
    assert load_run(tmp_path, Config) == run


@dataclass(frozen=True)
class TunedConfig(Config):
    lora: Lora = field(default_factory=lambda: Lora(4, 8.0, lora_dropout=0.1))


def test_a_run_whose_adapter_was_part_of_its_model_goes_on(tmp_path):
    run = Run(tmp_path, TunedConfig(), AXES, 4)
    former = run.record()
    former["config"]["model"] |= {"lora_rank": 4, "lora_alpha": 8.0}
    del former["config"]["lora"]
    (tmp_path / "run.json").write_text(json.dumps(former))
    assert load_run(tmp_path, TunedConfig).config.lora == Lora(4, 8.0)
    run.save(begun=True)
    assert load_run(tmp_path, TunedConfig) == run
    for other in (Lora(5, 8.0), Lora(4, 8.0, use_rslora=True)):
        with pytest.raises(UserError, match="lora_rank was 4|use_rslora was False"):
            Run(tmp_path, TunedConfig(lora=other), AXES, 4).save(begun=True)
    with pytest.raises(UserError, match="it trained an adapter, and config.py has none"):
        load_run(tmp_path, Config)


@dataclass(frozen=True)
class Asked:
    steps: int = 3


@dataclass(frozen=True)
class Changed(Config):
    train: Asked = field(default_factory=Asked)


def test_what_another_recipe_recorded_is_read_where_config_still_has_it(tmp_path):
    path = tmp_path / "run.json"
    Run(tmp_path, Changed(Model(width=8), Asked(7)), AXES, None).save()
    record = json.loads(path.read_text())
    record["config"]["train"]["beta"] = 0.1
    record["config"]["teacher"] = {"width": 2}
    path.write_text(json.dumps(record))
    assert load_run(tmp_path, Changed).config == Changed(Model(width=8), Asked(7))
    record["config"]["model"]["height"] = 2  # without which its parameters are no longer known
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match="does not fit config.py: .*height"):
        load_run(tmp_path, Changed)


def test_a_record_of_before_there_was_init_is_read(tmp_path):
    run = Run(tmp_path, Config(), AXES, 4)
    record = {name: value for name, value in run.record().items() if name != "init"}
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert load_run(tmp_path, Config) == run
    with pytest.raises(UserError, match="has started, from random parameters: leave --init out"):
        Run(tmp_path, Config(), AXES, 4, "org/name").save(begun=True)


def test_facts_are_of_the_settings_and_not_of_the_folder(tmp_path):
    one, two = Run(tmp_path, Config(), AXES, 4), Run(tmp_path / "b", Config(), AXES, 4)
    assert one.facts == two.facts
    wide = Run(tmp_path, Config(Model(width=5)), AXES, 4).facts
    assert wide.items() - one.facts.items() == {("model.width", "5")}


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(UserError, match="no run in .*: train one there first"):
        load_run(tmp_path, Config)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read as a run"),
        ('{"config": {}}', "cannot be read as a run: KeyError\\('mesh'\\)"),
        (
            '{"config": {"model": {"depth": 1}}, "mesh": {}, "virtual_devices": null}',
            "it does not fit config.py: .*depth",
        ),
        (
            '{"config": {"model": {"width": 0}}, "mesh": {}, "virtual_devices": null}',
            "it does not fit config.py: width 0 is not above 0",
        ),
    ],
)
def test_a_damaged_record_is_named(tmp_path, text, fault):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=f"run.json: {fault}"):
        load_run(tmp_path, Config)


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write .*file/run/run.json: Not a directory"):
        Run(tmp_path / "file" / "run", Config(), AXES, None).save()


def worker(port: str, process: str, folder: str) -> None:
    """Saves a run, and one of another model: both processes are told that it is refused."""
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    Run(Path(folder), Config(), AXES, 2).save()
    wait_for_all("saves")
    with pytest.raises(UserError, match="width was 4 and is 8"):
        Run(Path(folder), Config(Model(width=8)), AXES, 2).save()


def test_all_processes_refuse_another_model(tmp_path, run_processes):
    run_processes(__file__, tmp_path)
    assert load_run(tmp_path, Config).config == Config()


if __name__ == "__main__":
    worker(*sys.argv[1:])


@dataclass(frozen=True)
class Data:
    subword: str = "first"


@dataclass(frozen=True)
class WordsConfig(Config):
    data: Data = field(default_factory=Data)


def test_a_run_from_before_a_field_keeps_what_it_was_trained_with(tmp_path):
    Run(tmp_path, WordsConfig(data=Data("first")), AXES, 4).save()
    assert load_run(tmp_path, WordsConfig).config.data.subword == "first"
    record = json.loads((tmp_path / "run.json").read_text())
    record["config"]["data"] = {}
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert load_run(tmp_path, WordsConfig).config.data.subword == "last"
    assert begun_with(tmp_path, None, "x", WordsConfig) == (None, {"subword": "last"})
    assert begun_with(tmp_path / "new", None, "x", WordsConfig) == ("x", {})
    assert begun_with(tmp_path / "new", "none", "x", WordsConfig) == (None, {})


@dataclass(frozen=True)
class Texts:
    tokenizer: str = "bytes"


@dataclass(frozen=True)
class TextsConfig:
    model: Model = field(default_factory=Model)
    data: Texts = field(default_factory=Texts)


def test_a_tokenizer_that_was_moved_with_its_project_is_the_one_of_config(tmp_path, monkeypatch):
    def read(*recorded):
        for name in recorded:
            Run(tmp_path, TextsConfig(data=Texts(name)), AXES, 4).save()
            yield load_run(tmp_path, TextsConfig).config.data.tokenizer

    folder = str(tmp_path / "ck")
    monkeypatch.setattr(Texts, "tokenizer", folder)
    gone = ["../ck", "/gone/ck", "/gone/other", "me/ck", "bytes"]
    assert [*read(*gone)] == gone
    (tmp_path / "ck").mkdir()
    assert [*read(*gone)] == [folder, folder, *gone[2:]]
