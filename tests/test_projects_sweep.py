"""Projects that train many adapters at once: each is the one of a run of its own, and is kept and exported as that."""

import json
import shlex
import sys

import pytest
from generated import run
from safetensors.numpy import load_file

from redco_new.project.create import create_project
from redco_new.request import Request

# For some adapters of a sweep, how far three steps are from those of a project of one, on the same batches and base.
STEPS = """
import json, sys
sys.path += ["many", "alone"]
from dataclasses import replace
from itertools import islice
import jax
import numpy as np
from alone import config as of_one, steps as one
from many import config as of_all, pipeline, steps as every
from many.runtime.base.state import flatten
from many.runtime.data.batches import TrainBatches
from many.runtime.layout.mesh import make_mesh, use_virtual_devices
from many.runtime.step.sweep import Sweep, rows_of
from many.sharding import AXES

use_virtual_devices(2)

def compare(changes, numbers, micro_batches, dropout):
    rank = max(changes["ranks"], default=4)

    def sized(config, **train):
        train = replace(config.train, steps=3, batch_size=4, micro_batches=micro_batches, **train)
        data = replace(config.data, sequence_length=64)
        lora = replace(config.lora, lora_rank=rank, lora_dropout=dropout)
        model = replace(config.model, num_layers=1)
        return replace(config, model=model, data=data, train=train, lora=lora)

    def taken(steps, state):
        losses = []
        for batch in TrainBatches(examples, pipeline, sweep.train, start=0, sharding=steps.batch):
            state, values = steps.train(state, batch)
            losses.append({name: float(x) for name, x in values.items()})
        return flatten(jax.device_get(state.params)), losses

    sweep = sized(replace(of_all.TINY, sweep=Sweep(**{k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()})))
    examples = [*islice(pipeline.examples(sweep)[0], 12)]
    with jax.set_mesh(make_mesh(AXES)):
        steps = every.build(sweep)
        state = steps.init(jax.random.key(0))
        frozen = jax.device_get(state.frozen)
        params, losses = taken(steps, state)
        for row in (rows_of(sweep)[n] for n in numbers):
            own = sized(of_one.TINY, seed=row.seed)
            rule = replace(own.optimizer, learning_rate=row.learning_rate)
            own = replace(own, optimizer=rule, lora=replace(own.lora, lora_rank=row.rank))
            steps = one.build(own)
            state = steps.init(jax.random.key(row.seed))
            state = replace(state, frozen=jax.device_put(frozen, jax.tree.map(lambda x: x.sharding, steps.state.frozen)))
            alone, other = taken(steps, state)
            far = [abs(a["loss"] - b[f"adapter_{row.number}/loss"]) for a, b in zip(other, losses)]
            for path, x in alone.items():
                stacked = params[path][row.number].copy()
                part = tuple(map(slice, x.shape))
                far.append(float(np.abs(stacked[part] - x).max()))
                stacked[part] = 0
                assert not stacked.any(), f"what fills {path} up is not zero"
            print(json.dumps([max(far), other[0]["loss"] - other[-1]["loss"]]))

for case in json.loads(sys.argv[1]):
    compare(*case)
"""
ALL = {"learning_rates": [1e-3, 1e-2], "seeds": [0, 3], "ranks": [2, 4]}
SAME_RANK = {"learning_rates": [1e-3, 3e-3], "seeds": [], "ranks": []}
ONE = {"learning_rates": [], "seeds": [], "ranks": []}
# Of a project: (its sweep, the adapters that are compared, micro-batches, dropout).
CASES = {
    "": [
        (ALL, (2, 7), 2, 0.1),
        (SAME_RANK | {"adapters_at_once": 2}, (1,), 1, 0.0),
        (ONE, (0,), 1, 0.0),
    ],
    ",dora=true": [(ALL, (2,), 1, 0.0)],
    ",base=nf4": [(ALL, (2,), 1, 0.0)],
}


@pytest.mark.slow
@pytest.mark.parametrize("further", CASES)
def test_each_adapter_takes_the_steps_of_its_own_run(further, tmp_path):
    """To 1e-6, after three steps whose updates are a thousand times that and more."""
    for folder, lora in (("many", "rank=4,sweep=2"), ("alone", "rank=4")):
        flags = {"recipe": "sft", "mesh": "data=2", "lora": lora + further}
        create_project(Request.from_flags(folder, "llama", **flags), tmp_path)
    (tmp_path / "steps.py").write_text(STEPS)
    cases = shlex.quote(json.dumps(CASES[further]))
    code, out, err = run(f"{sys.executable} steps.py {cases}", tmp_path)
    assert code == 0, err
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("[")]
    assert len(lines) == sum(len(numbers) for _, numbers, *_ in CASES[further])
    for far, fell in lines:
        assert far <= 1e-6 and fell > 1e-3


@pytest.mark.slow
def test_the_best_is_kept_and_each_is_exported(tmp_path):
    flags = {"recipe": "lm", "lora": "rank=4,sweep=2", "mesh": "data=1", "features": "best"}
    folder = create_project(Request.from_flags("many", "llama", **flags), tmp_path)
    python, small = f"{sys.executable} -m many", "--steps 4 --batch-size 4 --eval-rows 8"
    train = f"{python}.train --preset tiny {small} --eval-every 2 --save-every 2 --log-every 1"
    train += " --virtual-devices 1 --workdir w --learning-rates 0.0001 0.01 --ranks 2 4 --best loss"
    code, out, err = run(train, folder)
    assert code == 0, err
    assert "adapter 3: learning rate 0.01, seed 0, rank 4" in out
    lines = [json.loads(x) for x in (folder / "w/sweep.jsonl").read_text().splitlines()]
    last = {one["adapter"]: one["loss"] for one in lines[-1]["adapters"]}
    best = min(last, key=last.get)
    (row,) = [x for x in out.splitlines() if "the best by loss, which export takes" in x]
    assert row.split()[:4] == [str(best), "0.01", "0", str((2, 4)[best % 2])]
    evaluated = [json.loads(x) for x in (folder / "w/eval.jsonl").read_text().splitlines()]
    assert evaluated[-1]["loss"] == min(last.values())
    assert json.loads((folder / "w/checkpoints-best/loss.json").read_text()) == {
        "step": 4,
        "loss": min(last.values()),
    }
    for words, rank, number in (("", (2, 4)[best % 2], best), ("--adapter 2 --best loss", 2, 2)):
        code, out, err = run(f"{python}.export --workdir w --out out{number} {words}", folder)
        assert code == 0 and f"adapter {number} of 4" in out, err
        tensors = load_file(folder / f"out{number}/adapter_model.safetensors")
        assert {x.shape[0] for name, x in tensors.items() if "lora_A" in name} == {rank}
        config = json.loads((folder / f"out{number}/adapter_config.json").read_text())
        assert config["r"] == rank
        code, out, err = run(
            f"{python}.evaluate --workdir w --rows 8 --json --adapter {number}", folder
        )
        assert json.loads(out)["loss"] == pytest.approx(last[number], rel=1e-5), err
    code, _, err = run(f"{python}.export --workdir w --out none --adapter 4", folder)
    assert code == 2 and "--adapter: 4: give a number from 0 to 3" in err
    code, _, err = run(f"{train} --steps 6 --ranks 4 4", folder)
    assert code == 2 and "have the ranks [2, 4, 2, 4]" in err
