"""Weights of projects of own classes: out by the class's own paths, in from each format, and what does not fit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from generated import EXACT

from redco_new.project.create import create_project
from redco_new.request import Request

HERE = Path(__file__).parent
PROJECTS = {
    "mixer": (
        "nets_linen.py:Mixer",
        "classify",
        '[model]\nwidth = 16\n[inputs]\nx = {shape = ["B", 12]}\n',
    ),
    "patches": (  # whose kernels are stored apart, and one is padded
        "nets_fused.py:Patches",
        "classify",
        "[model]\nwidth = 32\nheads = 4\nlayers = 2\nclasses = 11\n"
        '[inputs]\nimage = {shape = ["B", 16, 16, 3]}\n',
    ),
}
OWN = {
    "mixer": "batch_stats.BatchNorm_0.mean batch_stats.BatchNorm_0.var counts.calls "
    "params.BatchNorm_0.bias params.BatchNorm_0.scale params.Dense_0.bias params.Dense_0.kernel "
    "params.Dense_1.bias params.Dense_1.kernel params.Dense_2.bias params.Dense_2.kernel",
    "patches": "blocks.down.kernel blocks.norm.scale blocks.out.kernel blocks.qkv.bias "
    "blocks.qkv.kernel blocks.up.kernel first.bias first.kernel head.bias head.kernel stats.bias "
    "stats.mean stats.scale stats.var",
}
ABSENT = {"mixer": "net/BatchNorm_0/mean net/BatchNorm_0/var net/calls", "patches": ""}
KERNEL = {
    "mixer": "params/Dense_0/kernel",
    "patches": "blocks/down/kernel",
}  # the first of the export
SHAPES = {
    "mixer": "(11, 16) there, (12, 16) here",
    "patches": "(1, 128, 32) there, (2, 128, 32) here",
}

pytestmark = pytest.mark.slow  # a project each, with its steps compiled


@pytest.fixture(scope="module", params=PROJECTS)
def said(request, tmp_path_factory):
    """(name of the project, what check_weights.py prints in it)."""
    name, folder = request.param, tmp_path_factory.mktemp("weights")
    model, recipe, config = PROJECTS[name]
    for file in ("nets_linen.py", "nets_fused.py"):
        shutil.copy(HERE / file, folder)
    (folder / "net.toml").write_text(config)
    asked = {"mesh": "data=2,model=2", "recipe": recipe, "config": str(folder / "net.toml")}
    request = Request.from_flags(name, str(folder / model), **asked, folder=folder / name)
    place = create_project(request, folder)
    command = [sys.executable, str(HERE / "check_weights.py"), name]
    # The project, and its class; as users have it, an array is the same whether it is made in a jit.
    env = os.environ | EXACT | {"PYTHONPATH": ".:.."}
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return name, done.stdout


def message(said, label):
    """What a project said of the source of that label."""
    return said[1].partition(f"== {label}\n")[2].partition("\n== ")[0].strip()


def test_every_format_is_read_bit_for_bit_and_export_has_the_own_paths(said):
    name, text = said
    assert f"exported: {OWN[name]}\n" in text


def test_parameters_alone_are_enough(said):
    name, text = said
    assert f"absent: {ABSENT[name]}".strip() + "\n" in text


def test_all_that_does_not_fit_is_in_one_message(said):
    kernel, shapes = KERNEL[said[0]], SHAPES[said[0]]
    assert f"{kernel}: {shapes}, for net/" in message(said, "another shape")
    assert f"{kernel}: missing, for net/" in message(said, "a missing key")
    lines = message(said, "other names").splitlines()
    assert lines[0] == "--init: the tensors of files/turned.safetensors do not fit the model:"
    assert lines[-1].endswith("or say in weights.py what belongs where.") and len(lines) <= 24
    assert any(": there, and no parameter is made of it" in line for line in lines)
    assert any(": missing, for net/" in line for line in lines)


@pytest.mark.parametrize(
    ("label", "start"),
    [
        ("a damaged msgpack", "--init: files/short.msgpack is damaged, or no msgpack of flax"),
        ("a pickle", "--init: files/net.pt is damaged, or no msgpack of flax.serialization: "),
        ("a damaged file", "--init: files/short.safetensors is damaged or missing: "),
        ("a damaged tree", "--init: files/orbax is damaged: "),
        ("an empty folder", "--init: files/empty has no *.safetensors, no *.msgpack and no tree"),
        ("no file", "--init: nowhere.msgpack is not there, and Hugging Face does not give it: "),
    ],
)
def test_what_cannot_be_read_is_one_line(said, label, start):
    assert message(said, label).startswith(start) and "\n" not in message(said, label)
