"""A model of rewards in grpo: what it makes of answers is what its own project prints, and what is none is refused."""

import json
import re
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from generated import run
from recipes.pipelines import pipeline

from redco_runtime.loop.rewarding import chat_rows, reward_start
from redco_runtime.base.messages import UserError

grpo, reward = pipeline("grpo"), pipeline("reward")
QUESTION = {"messages": [{"role": "user", "content": "Hi"}], "tools": None, "answer": ""}
TEXTS = ["Hello.", "What?", ""]


@dataclass(frozen=True)
class Sizes:
    embed_dim: int = 4
    remat: str = ""


@pytest.fixture
def config(tmp_path):
    """Makes the configuration of a run of grpo beside one of reward, of these sizes and this length."""

    def make(sizes, length=64):
        data = {"tokenizer": "bytes", "sequence_length": length}
        record = {"config": {"model": sizes, "data": data}, "mesh": {}, "virtual_devices": 1}
        (tmp_path / "run.json").write_text(json.dumps(record))
        train = SimpleNamespace(reward_model=str(tmp_path), group=len(TEXTS))
        return SimpleNamespace(model=Sizes(), train=train, data=SimpleNamespace(**data))

    return make


def test_answers_are_judged_as_the_recipe_reward_does(config):
    numbers_V = np.random.default_rng(0).normal(size=384)
    model = SimpleNamespace(
        hidden=lambda ids_RS: jnp.asarray(ids_RS)[..., None],
        score=lambda x_R1: jnp.asarray(numbers_V)[x_R1.astype(int)],
    )

    rows = chat_rows(config({"embed_dim": 4}), [QUESTION] * 2, [TEXTS, TEXTS[::-1]])
    judged = SimpleNamespace(reward_model=model)
    found = np.asarray(grpo.predict(judged, grpo.collate(rows), None))
    asked = [json.dumps({"prompt": "Hi", "completion": text}) for text in TEXTS[:2]]
    data = SimpleNamespace(tokenizer="bytes", sequence_length=64)
    batch = reward.collate(reward.prompts(SimpleNamespace(data=data), asked))
    expected = reward.predict(model, batch, None)[:, 0]
    np.testing.assert_array_equal(found[0, :2], expected)
    np.testing.assert_array_equal(found[1], found[0, ::-1])


def test_a_chat_that_it_never_saw_the_like_of_is_refused(config):
    with pytest.raises(UserError, match=r"^--reward-model: .* 3\d tokens .* more than the 20 "):
        chat_rows(config({"embed_dim": 4}, length=20), [QUESTION], [TEXTS])


def test_its_sizes_are_those_of_its_run(config):
    assert reward_start(config({"embed_dim": 8, "dropout": 0.1}))["reward_model"][1] == Sizes(
        embed_dim=8
    )


@pytest.mark.parametrize("sizes", [{"embed_dim": 4, "rope_theta": 1.0}, {}, {"embed_dim": "4"}])
def test_sizes_of_another_family_are_refused(config, sizes):
    with pytest.raises(UserError, match="another family than Sizes"):
        reward_start(config(sizes))


TRAIN = f"{sys.executable} -m {{0}}.train --preset tiny --virtual-devices 2 --workdir runs/{{1}} "
JUDGE = """
import jax
from grpo import pipeline, weights
from grpo.config import PRESETS
from grpo.sharding import AXES
from grpo.steps import build
from pathlib import Path
from grpo.runtime.actors.playing import roll_out
from grpo.runtime.checkpoints.checkpoint import Checkpoints
from grpo.runtime.layout.mesh import make_mesh, use_virtual_devices
from grpo.runtime.run.record import load_run
use_virtual_devices(2)
from grpo.config import Config
run = load_run(Path("runs/a"), Config)
with jax.set_mesh(make_mesh(run.mesh)):
    steps = build(run.config)
    _, model = Checkpoints(run.checkpoints, shapes=steps.shapes).restore_model(steps.state.model)
    rows = pipeline.chat_rows(run.config, [{"messages": [{"role": "user", "content": "Hi"}]}], [["Hello.", "No."]])
    batch = jax.device_put(pipeline.collate(rows), steps.batch)
    print(*(f"{x:.3f}" for x in steps.predict(model, batch, jax.random.key(0))[0].tolist()))
"""


@pytest.mark.slow
def test_a_run_is_rewarded_by_what_another_learned(tmp_path):
    """Beside an adapter too, whose model of rewards has none; it stays as it was; files without a score are refused."""
    for recipe, flags in {"reward": "", "grpo": "--lora rank=2"}.items():
        flags = f"--recipe {recipe} --model gpt2 --shards 2 {flags}"
        code, _, err = run(f"redco-new {recipe} {flags}", tmp_path)
        assert code == 0, err
    judge, policy = tmp_path / "reward", tmp_path / "grpo"
    code, _, err = run(TRAIN.format("reward", "a") + "--steps 3", judge)
    assert code == 0, err
    program = f"{sys.executable} -m reward.predict --workdir runs/a "
    chats = (json.dumps({"prompt": "Hi", "completion": text}) for text in ("Hello.", "No."))
    code, out, err = run(program + " ".join(f"--prompt '{chat}'" for chat in chats), judge)
    assert code == 0, err
    expected = re.findall(r"-> (-?[\d.]+)", out)

    command = TRAIN.format("grpo", "a") + "--init none --steps 2 --reward-model ../reward/runs/a"
    code, out, err = run(command, policy)
    assert code == 0, err
    (policy / "judge.py").write_text(JUDGE)
    code, out, err = run(f"{sys.executable} judge.py", policy)
    assert (code, out.split()) == (0, expected), err
    assert len({*expected}) == 2

    command = TRAIN.format("grpo", "b") + "--init none --steps 2 --reward-model runs/none"
    code, out, err = run(command.replace("runs/none", "runs/a/checkpoints/2"), policy)
    assert code == 2 and "error: --reward-model: " in err and "Traceback" not in err
