"""Projects of classes as users write them: two steps on 4 devices, and the tests that come with each."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from redco_runtime.base.messages import UserError
from safetensors.numpy import load_file

import generated

from redco_new.project.create import create_project
from redco_new.render.execute import load_text
from redco_new.request import Request

HERE = Path(__file__).parent
# name: (class, recipe, what --config holds, or the function of --example)
PROJECTS = {
    "mixer": (
        "nets_linen.py:Mixer",
        "classify",
        '[model]\nwidth = 16\n[inputs]\nx = {shape = ["B", 12]}\n',
    ),
    "noisy": (
        "nets_nnx.py:Noisy",
        "lm",
        "[model]\nwords = 32\nwidth = 16\nseed = 3\n"
        '[inputs]\nids = {shape = ["B", 12], dtype = "int32"}\n',
    ),
    "pair": (
        "nets_nnx.py:Pair",
        "regress",
        "output = 0\n[model]\ndims = {in = 6, hidden = 16, out = 2}\n"
        '[inputs]\nx = {shape = ["B", 6]}\n',
    ),
    "tagger": (
        "nets_linen.py:Tagger",
        "classify",
        'output = "topic"\n[model]\nwords = 40\nwidth = 16\n'
        '[inputs]\nids = {shape = ["B", 10], dtype = "int32", below = 40}\n'
        'mask = {shape = ["B", 10], dtype = "bool"}\n',
    ),
    "encoder": (
        "nets_calls.py:Encoder",
        "lm",
        '[model]\nwords = 32\nwidth = 16\n[inputs]\ncache = "None"\nscales = {low = 0.5}\n'
        'text = {ids = {shape = ["B", 12], dtype = "int32"}, pair = [{shape = ["B", 12]}]}\n'
        'mask = {shape = [12], dtype = "bool", value = true}\n'
        'step = {shape = [], dtype = "int32", value = 3}\n',
    ),
    "placed": (
        "nets_sharded.py:Placed",
        "classify",
        '[model]\nwidth = 16\n[inputs]\nx = {shape = ["B", 12]}\n',
    ),
    "translator": (
        "nets_linen.py:Translator",
        "seq2seq",
        "[model]\nwords = 24\nwidth = 16\n"
        '[inputs]\nsource = {shape = ["B", 6], dtype = "int32"}\n'
        'target = {shape = ["B", 7], dtype = "int32"}\n',
    ),
    "turned": ("nets_text.py:Turned", "lm", "nets_text.py:turned"),
    "fused": ("nets_large.py:Fused", "lm", "nets_large.py:fused"),
}
COMMANDS = {
    "tests": "-m pytest -q tests/test_sharding.py tests/test_resume.py",
    "train": "-m {0}.train --preset tiny --steps 2 --micro-batches 2 --virtual-devices 4 --workdir runs/a",
    "predict": "-m {0}.predict --workdir runs/a --prompt 0 --prompt 1",
    "export": "-m {0}.export --workdir runs/a --out exported",
    "init": "-m {0}.train --preset tiny --steps 0 --init exported --virtual-devices 4 --workdir runs/b",
    "again": "-m {0}.export --workdir runs/b --out again",
}
RUN = ("mixer",)  # whose programs are run too; the tests of all train two steps and more


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the classes are; the projects are made there."""
    path = tmp_path_factory.mktemp("own")
    for name in (
        "nets_calls.py",
        "nets_large.py",
        "nets_linen.py",
        "nets_nnx.py",
        "nets_sharded.py",
        "nets_text.py",
        "example.py",
    ):
        shutil.copy(HERE / name, path)
    return path


def flags_of(folder, name):
    """The flags of redco-new about the class of a project; its files are in `folder`."""
    model, recipe, said = PROJECTS[name]
    flags = {"model": str(folder / model), "recipe": recipe}
    if said.endswith(f".py:{name}"):
        return flags | {"example": str(folder / said)}
    (folder / f"{name}.toml").write_text(said)
    return flags | {"config": str(folder / f"{name}.toml")}


def make(folder, name):
    """The folder of the project of that name."""
    flags = flags_of(folder, name)
    request = Request.from_flags(name, mesh="data=2,model=2", folder=folder / name, **flags)
    return create_project(request, folder)


class Settings:
    """What examples() of a project reads; its results are kept by this object."""

    data = SimpleNamespace(num_examples=8, held_out=2.0)
    train = SimpleNamespace(seed=0)


@pytest.mark.parametrize("name", ["mixer", "translator", "noisy", "pair"])
def test_held_out_that_is_no_share_is_named(folder, name):
    request = Request.from_flags(name, folder=folder / name, **flags_of(folder, name))
    text = generated.texts(request)[0][f"{name}/pipeline.py"].replace(
        f"{name}.runtime", "redco_runtime"
    )
    with pytest.raises(UserError, match="^--held-out: 2.0 is no share"):
        load_text("pipeline.py", text).examples(Settings())


def run(place, command):
    """(exit code, stdout and stderr) of a Python program in a project's folder."""
    code, out, err = generated.run(f"python {command.format(place.name)}", place)
    return code, out + err


@pytest.fixture(scope="module")
def results(folder):
    """results(name): {command: (exit code, what it said)} of a project, each once."""

    @cache
    def of(name):
        place = make(folder, name)
        commands = COMMANDS if name in RUN else {"tests": COMMANDS["tests"]}
        return {key: run(place, command) for key, command in commands.items()}

    return of


pytestmark = pytest.mark.slow  # whole projects of nine classes; test_tutorial.py has convolutions


@pytest.mark.parametrize("name", PROJECTS)
def test_it_trains_and_passes_its_own_tests(results, name):
    for command, (code, said) in results(name).items():
        assert code == 0, f"{command}\n{said}"
    assert "4 passed" in results(name)["tests"][1]


def test_a_linen_class_computes_what_flax_does(results, folder):
    results("mixer")
    command = [sys.executable, str(HERE / "check_mixer.py")]
    env = os.environ | {"PYTHONPATH": ".:.."}
    done = subprocess.run(command, cwd=folder / "mixer", env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", RUN)
def test_its_programs_show_examples(results, name):
    said = results(name)
    assert "held-out loss" in said["train"][1] and "'0' -> '" in said["train"][1]
    assert [line[:5] for line in said["predict"][1].splitlines()] == ["0 -> ", "1 -> "]


def test_what_a_model_holds_is_trained_and_exported(results, folder):
    results("mixer")
    tensors = load_file(folder / "mixer" / "exported" / "model.safetensors")
    assert tensors["counts.calls"] == 4  # two steps of two micro-batches
    assert abs(tensors["batch_stats.BatchNorm_0.mean"]).max() > 0
    assert json.loads((folder / "mixer" / "exported" / "config.json").read_text())["width"] == 16


def test_another_run_starts_from_the_export_with_all_that_the_model_holds(results, folder):
    results("mixer")
    first, second = (folder / "mixer" / x / "model.safetensors" for x in ("exported", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_the_class_is_imported_and_not_copied(folder, results):
    results("mixer")
    for path in (folder / "mixer").rglob("*.py"):
        assert "class Mixer(" not in path.read_text(), path
    model = (folder / "mixer" / "mixer" / "model.py").read_text()
    assert 'CLASS_FILE = Path(__file__).parents[1] / "../nets_linen.py"' in model


def test_redco_toml_gives_the_request_back(folder, results):
    results("tagger")
    place = folder / "tagger"
    request = Request.from_toml((place / "redco.toml").read_text(), folder=place)
    assert (request.model, request.own.output) == ("../nets_linen.py:Tagger", "topic")
    assert request.own.inputs["ids"].below == 40
    assert generated.texts(request)[0]
