"""A project of GPT-J, run as its users run it, command by command of its README; and other layouts of it."""

import json
import shutil
import sys

import pytest
from generated import make, metrics, run, shell_commands

from redco_new.request import Request

SHORT = {
    "--steps 200": "--steps 3",
    "--steps 20 ": "--steps 2 ",
}  # the same commands, but soon done


@pytest.fixture(scope="module")
def my_project(tmp_path_factory):
    return make(tmp_path_factory.mktemp("projects"), shards="4")


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


@pytest.mark.slow
def test_the_commands_of_a_projects_readme_work(followed, my_project):
    train, predict, evaluated, export, report, look, update, two = followed.values()
    assert look == "my-project: 0 files would change.\n"
    assert update == "my-project: nothing to update.\n"
    assert "held-out loss" in train and "checkpoint: " in train
    assert predict.startswith("The ") and len(predict) > len("The \n")
    loss = evaluated.removeprefix("step 3: loss ").split(",")[0]
    assert f"held-out loss {loss}\n" in train and "perplexity" in evaluated
    assert {p.name for p in (my_project / "exported").iterdir()} == {
        "added_tokens.json",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer_config.json",
    }
    lines = metrics(my_project / "runs/a")
    keys = {"step", "loss", "learning_rate", "grad_norm", "tokens_per_second"}
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(isinstance(line[key], (int, float)) for line in lines for key in keys)
    assert "goodput" in report and "loss, steps 1 to 3" in report
    assert (my_project / "runs/a/report.html").stat().st_size > 1000


@pytest.mark.slow
def test_a_run_of_two_processes_is_recorded_by_one(followed, my_project):
    events, starts = (
        [json.loads(line) for line in (my_project / "runs/two" / name).read_text().splitlines()]
        for name in ("events.jsonl", "starts.jsonl")
    )
    kinds = [event["event"] for event in events]
    assert kinds[:2] == ["start", "boot"] and {"compile", "steps", "save", "evaluate"} < {*kinds}
    assert kinds.count("start") == 1 and kinds.count("compile") == 1
    ends = [event["time"] + event["seconds"] for event in events]
    assert all(after["time"] > end - 0.1 for end, after in zip(ends, events[1:], strict=False))
    (start,) = starts
    assert len(start["hosts"]) == 2 and start["devices"]["count"] == 8
    assert start["versions"].keys() > {"python", "jax", "jaxlib", "flax", "optax", "my_project"}


@pytest.mark.slow
def test_the_export_holds_the_trained_model_and_its_sizes(followed, my_project):
    from safetensors.numpy import load_file

    tensors = load_file(my_project / "exported" / "model.safetensors")
    config = json.loads((my_project / "exported" / "config.json").read_text())
    for layer in range(config["n_layer"]):
        shape = (config["n_inner"], config["n_embd"])
        assert tensors[f"transformer.h.{layer}.mlp.fc_in.weight"].shape == shape
    assert config["architectures"] == ["GPTJForCausalLM"]
    assert abs(tensors["transformer.ln_f.weight"] - 1).max() > 0  # trained


@pytest.mark.slow
def test_a_run_goes_on(followed, my_project):
    """Not with another model: test_init.py."""
    train = "python -m my_project.train --preset tiny --virtual-devices 4 --workdir runs/a"
    code, out, _ = run(f"{train} --steps 4", my_project)
    assert code == 0 and "resuming from step 3" in out


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


@pytest.mark.slow
def test_a_project_needs_nothing_of_the_generator(my_project):
    hidden = "import sys; sys.modules['redco_new'] = None; import runpy; sys.argv = {}; "
    argv = ["train", *"--preset tiny --steps 1 --virtual-devices 4 --workdir runs/alone".split()]
    program = hidden.format(argv) + "runpy.run_module('my_project.train', run_name='__main__')"
    code, out, err = run(f'{sys.executable} -c "{program}"', my_project)
    assert code == 0, out + err


COUNTED = """
import collections, runpy, sys, jax
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name.split("/")[-1]]))
sys.argv = ["train", *sys.argv[1:]]
runpy.run_module("my_project.train", run_name="__main__")
print("COMPILED", events["compile_requests_use_cache"] - events["cache_hits"])
"""


@pytest.mark.slow
def test_a_restart_compiles_nothing(my_project):
    options = "--preset tiny --steps 2 --save-every 1 --virtual-devices 1 --workdir runs/cached"
    options += " --mesh data=1"
    program = f"env -u JAX_COMPILATION_CACHE_DIR {sys.executable} -c '{COUNTED}' {options}"
    code, out, err = run(program, my_project)
    assert code == 0 and "COMPILED 0" not in out, out + err
    shutil.rmtree(my_project / "runs/cached/checkpoints/2")  # as if stopped before it was written
    code, out, err = run(program, my_project)
    assert code == 0 and "resuming from step 1" in out and "COMPILED 0" in out, out + err
    assert "warning" not in err.lower()


LAYOUTS = {
    "1": {"shards": "1"},
    "odd": {"shards": "6"},
    "all": {"mesh": "data=2,fsdp=2,model=2", "zero": 1, "sequence_parallel": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("flags", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout_trains_to_the_same_losses(flags, tmp_path, followed, my_project):
    folder = make(tmp_path, **flags)
    devices = Request.from_flags("a", "gpt-j", **flags).devices
    options = f"--preset tiny --steps 3 --virtual-devices {devices} --workdir runs/a"
    # Compiled anew, or the compiler would say nothing; for one device it has nothing to say.
    anew = {"JAX_ENABLE_COMPILATION_CACHE": "0"} if devices > 1 else {}
    code, out, err = run(f"python -m my_project.train {options}", folder, **anew)
    assert code == 0, out + err
    assert "Involuntary full rematerialization" not in err
    found, expected = (
        [line["loss"] for line in metrics(path / "runs/a")] for path in (folder, my_project)
    )
    assert found == pytest.approx(expected[:3], rel=1e-4)


COLLECTIVES = """
import dataclasses, re, jax, jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 4)
from my_project.config import TINY
from my_project.steps import build
from my_project.runtime.layout.mesh import make_mesh

with jax.set_mesh(make_mesh({"data": 1, "fsdp": 4, "model": 1})):
    steps = build(TINY)
    shapes = {"input_ids": "int32", "mask": "bool"}
    batch = {k: jax.ShapeDtypeStruct((16, 128), d, sharding=steps.batch) for k, d in shapes.items()}
    text = steps.train.lower(steps.state, batch).compile().as_text()
found = re.findall(r"= (.*?) (?:all-reduce|all-gather|all-to-all|reduce-scatter)[(]", text)
print(len(found), [shape for shape in found if re.search(r"f32.(16,128|4,4,128),(?!32|128)", shape)])
"""


@pytest.mark.slow
def test_fsdp_moves_parameters_and_not_activations(my_project):
    code, out, err = run(f"{sys.executable} -c '{COLLECTIVES}'", my_project)
    assert code == 0, err
    count, activations = out.split(maxsplit=1)
    assert int(count) > 10 and activations.strip() == "[]"
