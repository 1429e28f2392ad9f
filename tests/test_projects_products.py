"""Projects whose layers multiply in 8 bits: on every axis, beside what else a project may have."""

import json
import sys

import pytest
from generated import run

from redco_new.project.create import create_project
from redco_new.request import Request

# Losses and the norms of gradients of three first steps, as a run takes them, in 8 bits and as all else.
STEPS = """
import json, sys
from dataclasses import replace
from itertools import islice
import jax
from my_project import pipeline
from my_project.config import TINY
from my_project.runtime.data.batches import TrainBatches
from my_project.runtime.layout.mesh import make_mesh, use_virtual_devices
from my_project.sharding import AXES
from my_project.steps import build

use_virtual_devices(4)
settings, data = map(json.loads, sys.argv[1:])
data = replace(TINY.data, **data)
for products in ("compute", settings.pop("products")):
    train = replace(TINY.train, steps=3, batch_size=8, products=products, **settings)
    config = replace(TINY, data=data, train=train)
    with jax.set_mesh(make_mesh(AXES)):
        steps = build(config)
        state = steps.init(jax.random.key(0))
        examples = [*islice(pipeline.examples(config)[0], 24)]
        values = []
        for batch in TrainBatches(examples, pipeline, train, start=0, sharding=steps.batch):
            state, metrics = steps.train(state, batch)
            values.append([float(metrics["loss"]), float(metrics["grad_norm"])])
    print(json.dumps(values))
"""
CASES = {
    "zero, int8": ("llama", {"mesh": "data=4", "zero": 1}, {"products": "int8"}, {}),
    "fsdp and model": ("llama", {"mesh": "fsdp=2,model=2"}, {"micro_batches": 2}, {}),
    "micro-batches of data": ("gpt2", {"mesh": "data=2,model=2"}, {"micro_batches": 2}, {}),
    "sequence": ("qwen3", {"shards": "4", "sequence_parallel": True}, {}, {}),
    "experts": ("mixtral", {"mesh": "expert=2,model=2"}, {}, {}),
    "adapter, packing": (
        "llama",
        {"mesh": "fsdp=2,model=2", "lora": "rank=4"},
        {},
        {"packing": "on"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("model", "flags", "train", "data"), CASES.values(), ids=CASES)
def test_steps_in_8_bits_are_near_those_of_all_else(model, flags, train, data, tmp_path):
    request = Request.from_flags("my-project", model, products="float8", **flags)
    folder = create_project(request, tmp_path)
    (folder / "steps.py").write_text(STEPS)
    train = {"products": "float8"} | train
    command = f"{sys.executable} steps.py '{json.dumps(train)}' '{json.dumps(data)}'"
    code, out, err = run(command, folder)
    assert code == 0, out + err
    plain, rounded = (json.loads(line) for line in out.splitlines()[-2:])
    for (loss, norm), (loss8, norm8) in zip(plain, rounded, strict=True):
        assert loss8 == pytest.approx(loss, rel=0.02) and norm8 == pytest.approx(norm, rel=0.1)
    assert rounded[0] != plain[0]


@pytest.mark.slow
def test_the_tests_of_a_project_pass(tmp_path):
    """Sharded equals unsharded where nothing is rounded, and resumed equals undisturbed where it is, to the last bit."""
    request = Request.from_flags("my-project", "llama", products="float8", mesh="fsdp=2,model=2")
    folder = create_project(request, tmp_path)
    code, out, err = run(f"{sys.executable} -m pytest -q -k 'not boot'", folder)
    assert code == 0, out + err
