"""Generated projects, run as their users run them: their own tests, and each command of the READMEs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import golden
import pytest

from redco_new import project
from redco_new.request import Request

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
SHORT = {
    "--steps 200": "--steps 3",
    "--steps 20 ": "--steps 2 ",
}  # the same commands, but soon done


def run(command, folder, **variables):
    """(exit code, stdout, stderr) of a shell command, with this Python's programs first."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PYTHON"))}
    env = {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", **variables}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=500
    )
    return done.returncode, done.stdout, done.stderr


def shell_commands(text):
    """The commands in the bash blocks of a README, joined where a line goes on."""
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return [c for block in blocks for c in block.replace("\\\n", " ").splitlines()]


def metrics(folder):
    """The lines of the metrics.jsonl of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def make(folder, **flags):
    """The folder of a project made with these flags of redco-new."""
    request = Request.from_flags("my-project", "gpt-j", **flags)
    return project.create(request, folder)


@pytest.fixture(scope="module")
def my_project(tmp_path_factory):
    return make(tmp_path_factory.mktemp("projects"), shards="4")


@pytest.mark.parametrize("case", golden.cases(), ids=lambda case: case.name)
def test_the_tests_of_a_golden_pass(case, tmp_path):
    shutil.copytree(case / "project", tmp_path / "project", symlinks=False)
    code, out, err = run(f"{sys.executable} -m pytest -q", tmp_path / "project")
    assert code == 0, out + err
    assert re.search(r"^[5-9] passed", out, re.MULTILINE), out


@pytest.fixture(scope="module")
def followed(my_project):
    """{command of the project's README: what it printed}, run from first to last."""
    printed = {}
    for command in shell_commands((my_project / "README.md").read_text()):
        short = command
        for long, brief in SHORT.items():
            short = short.replace(long, brief)
        if command in ("pip install -e .", "pytest"):
            continue  # installed already; the golden's own test runs the second
        code, out, err = run(short, my_project)
        assert code == 0, f"{command}\n{out}{err}"
        printed[command] = out
    return printed


def test_the_commands_of_a_projects_readme_work(followed, my_project):
    train, predict, export, two = followed.values()
    assert "held-out loss" in train and "checkpoint: " in train
    assert predict.startswith("The ") and len(predict) > len("The \n")
    assert {p.name for p in (my_project / "exported").iterdir()} == {
        "config.json",
        "model.safetensors",
    }
    lines = metrics(my_project / "runs/a")
    keys = {"step", "loss", "learning_rate", "grad_norm", "tokens_per_second"}
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(isinstance(line[key], (int, float)) for line in lines for key in keys)


def test_the_export_holds_the_trained_model_and_its_sizes(followed, my_project):
    from safetensors.numpy import load_file

    tensors = load_file(my_project / "exported" / "model.safetensors")
    config = json.loads((my_project / "exported" / "config.json").read_text())
    shape = (config["num_layers"], config["embed_dim"], config["mlp_dim"])
    assert tensors["layers.mlp.up.kernel"].shape == shape
    assert config["model"] == "gpt-j" and config["step"] == 3
    assert abs(tensors["ln.scale"] - 1).max() > 0  # trained


def test_a_run_goes_on_and_refuses_another_model(followed, my_project):
    train = "python -m my_project.train --preset tiny --virtual-devices 4 --workdir runs/a"
    code, out, _ = run(f"{train} --steps 4", my_project)
    assert code == 0 and "resuming from step 3" in out
    code, _, err = run(f"{train} --steps 5 --num-layers 3", my_project)
    assert (code, err.count("\n")) == (2, 1)
    assert "num_layers was 2 and is 3; choose another --workdir" in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train --preset tiny --workdir runs/x", "add --virtual-devices 4"),
        ("train --preset tiny --workdir runs/x --mesh row=2", "--mesh: 'row=2' is not an axis"),
        ("predict --workdir runs/none --prompt a", "no run in runs/none: train one there first"),
        (
            "train --preset tiny --virtual-devices 4 --batch-size 3 --micro-batches 2 --workdir r",
            "--batch-size: 3 rows do not divide by 2",
        ),
        (
            "train --preset tiny --virtual-devices 4 --workdir r --text-files none.txt",
            "--text-files: cannot read none.txt: ",
        ),
        (
            "train --preset tiny --virtual-devices 4 --workdir r --mlp-dim 510",
            "layers/mlp/up/kernel: dim 2 of (2, 128, 510) does not divide by 4 (model)",
        ),
    ],
)
def test_bad_input_of_a_project_is_one_message(my_project, command, message):
    code, out, err = run(f"python -m my_project.{command}", my_project)
    assert code == 2, out + err
    assert message in err and "Traceback" not in err
    assert not (my_project / "r").exists()


def test_a_project_needs_nothing_of_the_generator(my_project):
    hidden = "import sys; sys.modules['redco_new'] = None; import runpy; sys.argv = {}; "
    argv = ["train", *"--preset tiny --steps 1 --virtual-devices 4 --workdir runs/alone".split()]
    program = hidden.format(argv) + "runpy.run_module('my_project.train', run_name='__main__')"
    code, out, err = run(f'{sys.executable} -c "{program}"', my_project)
    assert code == 0, out + err


LAYOUTS = {
    "1": {"shards": "1"},
    "2": {"shards": "2"},
    "8": {"shards": "8"},
    "odd": {"shards": "6"},
    "sequence": {"mesh": "fsdp=2,model=2", "sequence_parallel": True},
    "zero": {"mesh": "data=2,fsdp=2,model=2", "zero": 1},
}


@pytest.mark.parametrize("flags", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout_trains_to_the_same_losses(flags, tmp_path, followed, my_project):
    folder = make(tmp_path, **flags)
    devices = Request.from_flags("a", "gpt-j", **flags).devices
    options = f"--preset tiny --steps 3 --virtual-devices {devices} --workdir runs/a"
    code, out, err = run(f"python -m my_project.train {options}", folder)
    assert code == 0, out + err
    assert "Involuntary full rematerialization" not in err
    found, expected = (
        [line["loss"] for line in metrics(path / "runs/a")] for path in (folder, my_project)
    )
    assert found == pytest.approx(expected[:3], rel=1e-4)


def test_the_tests_of_a_project_pass_where_sizes_are_odd(tmp_path):
    folder = make(tmp_path, shards="6", zero=1, sequence_parallel=True)
    code, out, err = run(f"{sys.executable} -m pytest -q -k 'not boot'", folder)
    assert code == 0 and re.search(r"^[3-9] passed", out, re.MULTILINE), out + err


PADDED = """
import jax
jax.config.update("jax_num_cpu_devices", 6)
from my_project.config import TINY
from my_project.sharding import AXES
from my_project.steps import build
from redco_runtime.mesh import make_mesh
from redco_runtime.specs import cut

with jax.set_mesh(make_mesh(AXES)):
    steps = build(TINY)
    params = steps.init(jax.random.key(0)).params
    up = params["layers"]["mlp"]["up"]["kernel"]
    own = cut(params, steps.shapes)["layers"]["mlp"]["up"]["kernel"]
    print(up.shape, up.addressable_shards[0].data.shape, own.shape, abs(up[..., 512:]).max())
"""


def test_what_does_not_divide_is_padded_in_memory_only(tmp_path):
    folder = make(tmp_path, shards="6")
    code, out, err = run(f"{sys.executable} -c '{PADDED}'", folder)
    assert out == "(2, 128, 516) (2, 128, 86) (2, 128, 512) 0.0\n", err


MOMENTS = """
import jax
jax.config.update("jax_num_cpu_devices", 4)
from my_project.config import TINY
from my_project.sharding import AXES
from my_project.steps import build
from redco_runtime.mesh import make_mesh

def held(tree):
    return sum(x.addressable_shards[0].data.nbytes for x in jax.tree.leaves(tree))

with jax.set_mesh(make_mesh(AXES)):
    state = build(TINY).init(jax.random.key(0))
    print(held(state.opt_state) / held(state.params))
"""


@pytest.mark.parametrize(("zero", "share"), [(0, 2), (1, 0.5)])
def test_zero_splits_the_moments_over_data(zero, share, tmp_path):
    folder = make(tmp_path, mesh="data=4", zero=zero)
    code, out, err = run(f"{sys.executable} -c '{MOMENTS}'", folder)
    assert float(out) == pytest.approx(share, rel=1e-3), err


COLLECTIVES = """
import dataclasses, re, jax, jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 4)
from my_project.config import TINY
from my_project.steps import build
from redco_runtime.mesh import make_mesh

with jax.set_mesh(make_mesh({"data": 1, "fsdp": 4, "model": 1})):
    steps = build(TINY)
    shapes = {"input_ids": "int32", "mask": "bool"}
    batch = {k: jax.ShapeDtypeStruct((16, 128), d, sharding=steps.batch) for k, d in shapes.items()}
    text = steps.train.lower(steps.state, batch).compile().as_text()
found = re.findall(r"= (.*?) (?:all-reduce|all-gather|all-to-all|reduce-scatter)[(]", text)
print(len(found), [shape for shape in found if re.search(r"f32.(16,128|4,4,128),(?!32|128)", shape)])
"""


def test_fsdp_moves_parameters_and_not_activations(my_project):
    code, out, err = run(f"{sys.executable} -c '{COLLECTIVES}'", my_project)
    assert code == 0, err
    count, activations = out.split(maxsplit=1)
    assert int(count) > 10 and activations.strip() == "[]"


def test_the_commands_of_our_readme_work(tmp_path):
    text = (ROOT / "README.md").read_text()
    commands = shell_commands(text)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = {c.split()[1] for c in commands if c.startswith("make ")}
    assert made == {"demo", "test"} <= targets
    rest = [c for c in commands if not c.startswith(("make ", "pip install", "cd "))]
    assert rest[0] == rest[1] and rest[1].startswith("redco-new ")
    code, out, err = run(rest[1], tmp_path)
    assert code == 0, err
    code, out, err = run(rest[2].replace("--steps 200", "--steps 2"), tmp_path / "my-project")
    assert code == 0, out + err
    inspects = rest[3:]
    assert len(inspects) == 3 and all(c.startswith("redco inspect ") for c in inspects)
    for command in inspects:
        code, out, err = run(command, tmp_path)
        assert code == 0 and "--html" in command or "layers/attn/q/kernel" in out, err
    assert "layers/attn/q/kernel" in (tmp_path / "plan.html").read_text()


def test_the_python_of_our_readme_works():
    import jax

    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names = {
        "forward": lambda params, batch: jax.nn.relu(batch @ params["a"]) @ params["b"],
        "params": {k: jax.ShapeDtypeStruct((8, 8), "float32") for k in "ab"},
        "batch": jax.ShapeDtypeStruct((2, 8), "float32"),
    }
    exec(block, names)
    plan, arrays = names["plan"], {k: jax.numpy.ones((8, 8)) for k in "ab"}
    assert list(plan.specs) == ["a", "b"]
    batch = jax.numpy.ones((2, 8))
    assert (plan.forward(plan.store(arrays), batch) == names["forward"](arrays, batch)).all()
