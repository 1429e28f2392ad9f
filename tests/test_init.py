"""Weights into a generated project and out of it again, as PyTorch's transformers wrote and read them."""

import json
import re
import shlex
import shutil

import numpy as np
import orbax.checkpoint
import pytest
import torch
import transformers
from families.parity import random_torch
from generated import run

from redco_new.project.create import create_project
from redco_new.request import Request

TRAIN = "-m my_project.train --preset tiny --virtual-devices 4 --workdir"
LOGITS = """
import sys
import jax, numpy as np
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
from pathlib import Path
from flax import nnx
from my_project.config import Config
from my_project.model import GPTJ
from my_project.steps import build
from my_project.runtime.checkpoints.checkpoint import Checkpoints
from my_project.runtime.layout.mesh import make_mesh
from my_project.runtime.run.record import load_run

run = load_run(Path(sys.argv[1]), Config)
with jax.set_mesh(make_mesh(run.mesh)):
    steps = build(run.config)
    step, model = Checkpoints(run.checkpoints).restore_model(steps.state.model)
    params = model.params
    kernel = params["layers"]["mlp"]["up"]["kernel"]
    assert step == 0 and kernel.addressable_shards[0].data.shape[2] * 4 == kernel.shape[2]
    graph, _ = nnx.split(nnx.eval_shape(lambda: GPTJ(run.config.model, rngs=nnx.Rngs(0))), nnx.Param)
    ids = np.load(sys.argv[2])
    logits = jax.jit(lambda params: nnx.merge(graph, params)(ids))(params)
    np.save(sys.argv[3], np.asarray(logits))
    started = steps.start(model)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(params)), "held twice"
    assert jax.tree.map(lambda a: a.sharding, started) == jax.tree.map(
        lambda a: a.sharding, steps.state
    )
"""


@pytest.fixture(scope="module")
def my_project(tmp_path_factory):
    request = Request.from_flags("my-project", "gpt-j", shards="4")
    return create_project(request, tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def reference():
    """PyTorch's GPT-J in the sizes of the preset `tiny`; norms and biases are random too."""
    config = transformers.GPTJConfig(
        vocab_size=384,
        n_embd=128,
        n_layer=2,
        n_head=8,
        n_inner=None,
        rotary_dim=8,
        n_positions=256,
        bos_token_id=0,
        eos_token_id=1,
    )
    return random_torch(transformers.GPTJForCausalLM, config, seed=0, scale=0.2)


@pytest.fixture(scope="module")
def checkpoint(reference, tmp_path_factory):
    """What save_pretrained makes of it: an index and three files or more."""
    folder = tmp_path_factory.mktemp("checkpoint")
    reference.save_pretrained(folder, max_shard_size="250KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    return folder


def python(folder, command, *more):
    """(exit code, stdout, stderr) of a Python command in the project."""
    return run(shlex.join(["python", *command.split(), *map(str, more)]), folder)


@pytest.fixture(scope="module")
def loaded(my_project, checkpoint):
    """The work folder of a run that has loaded the checkpoint, and what it printed."""
    code, out, err = python(my_project, f"{TRAIN} runs/loaded --steps 0 --init", checkpoint)
    assert (code, err) == (0, ""), out + err
    return my_project / "runs" / "loaded", out


@pytest.fixture(scope="module")
def ids():
    return np.random.default_rng(0).integers(0, 384, (2, 20))


def logits(model, ids):
    with torch.no_grad():
        return model(torch.asarray(ids)).logits.numpy()


def test_steps_0_loads_saves_and_leaves(loaded, checkpoint):
    workdir, out = loaded
    assert f"starting from the weights of {checkpoint}\n" in out
    assert f"checkpoint: {workdir}/checkpoints/0\n" in out
    assert json.loads((workdir / "run.json").read_text())["init"] == str(checkpoint)
    assert [path.name for path in (workdir / "checkpoints").iterdir()] == ["0"]
    assert not (workdir / "metrics.jsonl").exists()


def test_what_is_loaded_has_the_logits_of_pytorch(my_project, loaded, reference, ids, tmp_path):
    np.save(tmp_path / "ids.npy", ids)
    paths = (loaded[0], tmp_path / "ids.npy", tmp_path / "logits.npy")
    (my_project / "logits.py").write_text(LOGITS)
    code, out, err = python(my_project, "logits.py", *paths)
    assert code == 0, out + err
    found = np.load(tmp_path / "logits.npy")
    np.testing.assert_allclose(found, logits(reference, ids), atol=1e-4, rtol=1e-4)


def test_pytorch_loads_what_is_exported(my_project, loaded, reference, ids, tmp_path):
    out = tmp_path / "exported"
    code, printed, err = python(my_project, "-m my_project.export --workdir runs/loaded --out", out)
    assert (code, err) == (0, ""), printed + err
    model, told = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert type(model) is transformers.GPTJForCausalLM and model.dtype == torch.float32
    assert not any(told.values()), told
    here, there = model.state_dict(), reference.state_dict()
    assert here.keys() == there.keys() and all(torch.equal(here[k], there[k]) for k in here)
    # The same numbers elsewhere in memory may be multiplied in another order.
    np.testing.assert_allclose(logits(model, ids), logits(reference, ids), atol=1e-5, rtol=1e-5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    assert tokenizer.decode(tokenizer("ab")["input_ids"], skip_special_tokens=True) == "ab"
    generation = transformers.GenerationConfig.from_pretrained(out)
    assert (generation.eos_token_id, generation.pad_token_id) == (1, 0)
    assert model.generation_config.eos_token_id == 1
    tokens = model.generate(**tokenizer(["ab"], return_tensors="pt"), max_new_tokens=4)
    assert tokens.shape[0] == 1


@pytest.mark.slow
def test_a_run_goes_on_from_its_own_checkpoint_and_keeps_what_it_started_from(
    my_project, checkpoint, loaded, tmp_path
):
    (tmp_path / "text").write_text("words and more words " * 200)
    shutil.copytree(loaded[0], my_project / "runs" / "on")
    train = f"{TRAIN} runs/on --sample-prompts --text-files {tmp_path}/text"
    for last, init in ((1, f"--init {checkpoint}"), (2, "")):
        code, out, err = python(my_project, f"{train} --steps {last} {init}")
        assert code == 0, err
        assert f"resuming from step {last - 1}" in out and "starting from" not in out
        record = json.loads((my_project / "runs" / "on" / "run.json").read_text())
        assert record["init"] == str(checkpoint)
    code, out, err = python(my_project, f"{train} --steps 3 --init other/model")
    assert (code, err.count("\n")) == (2, 1)
    assert f"--init: the run in runs/on has started, from {checkpoint}: leave --init out" in err


def params(workdir, step):
    """The parameters of a checkpoint, by name."""
    folder = workdir / "checkpoints" / str(step) / "default"
    with orbax.checkpoint.PyTreeCheckpointer() as reader:
        names = reader.metadata(folder).item_metadata.tree
        arrays = dict.fromkeys(names, orbax.checkpoint.RestoreArgs(restore_type=np.ndarray))
        found = reader.restore(
            folder, args=orbax.checkpoint.args.PyTreeRestore(restore_args=arrays)
        )
    return {name: value for name, value in found.items() if name.startswith("params/")}


@pytest.mark.slow
def test_a_new_run_starts_from_another_run_whose_model_was_changed(my_project, loaded, tmp_path):
    changed = tmp_path / "my-project"
    shutil.copytree(my_project, changed, ignore=shutil.ignore_patterns("runs", ".redco"))
    for name, old, new in (
        ("model.py", r"self\.head\b", "self.out"),
        ("sharding.py", '"head/', '"out/'),
    ):
        path = changed / "my_project" / name
        path.write_text(re.sub(old, new, path.read_text()))
    command = f"{TRAIN} runs/on --steps 0 --mesh data=2,model=2 --init"
    code, out, err = python(changed, command, loaded[0])
    assert (code, err) == (0, ""), out + err
    assert "as in a new model, since" in out and "have them: out/bias, out/kernel\n" in out
    assert "left out, since the model does not have them: head/bias, head/kernel" in out
    before, after = params(loaded[0], 0), params(changed / "runs" / "on", 0)
    assert len(before.keys() & after.keys()) == len(before) - 2
    for name in before.keys() & after.keys():
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.slow
def test_a_run_does_not_go_on_with_another_model(my_project, loaded):
    code, out, err = python(my_project, f"{TRAIN} runs/loaded --mlp-dim 1024")
    assert (code, err.splitlines()[1:-1]) == (
        2,
        [
            "  layers/mlp/down/kernel: float32[2, 512, 128] there, float32[2, 1024, 128] in the model",
            "  layers/mlp/up/bias: float32[2, 512] there, float32[2, 1024] in the model",
            "  layers/mlp/up/kernel: float32[2, 128, 512] there, float32[2, 128, 1024] in the model",
        ],
    )
    assert f"--init {loaded[0]}/checkpoints starts there" in err and "another --workdir" in err


@pytest.mark.slow
def test_a_failed_start_can_be_mended(my_project, checkpoint, tmp_path):
    command = f"{TRAIN} runs/mended --steps 0 --init"
    code, _, err = python(my_project, command, tmp_path)
    assert (code, err.count("\n")) == (2, 1) and "has no model.safetensors" in err, err
    code, out, err = python(my_project, command, checkpoint)
    assert code == 0 and "starting from the weights" in out, err


def test_another_size_is_refused_by_its_keys(my_project, checkpoint):
    command = f"{TRAIN} runs/sizes --steps 0 --num-layers 3 --init"
    code, _, err = python(my_project, command, checkpoint)
    assert code == 2 and "Traceback" not in err
    assert err.splitlines()[1:-1] == ["  n_layer: there 2, here 3"]


@pytest.mark.slow
def test_the_model_without_its_head_lacks_only_that(my_project, reference, tmp_path):
    reference.transformer.save_pretrained(tmp_path / "bare")
    command = f"{TRAIN} runs/bare --steps 0 --init"
    code, _, err = python(my_project, command, tmp_path / "bare")
    assert code == 2
    assert err.splitlines()[1:-1] == [
        "  lm_head.weight: missing, for head/kernel",
        "  lm_head.bias: missing, for head/bias",
    ]
