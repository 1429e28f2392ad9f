"""Five AdamW steps of a project and of its PyTorch class, from the same weights; then its export, in PyTorch.

python check_project.py PACKAGE FILE:CLASS ARGUMENTS MESH, in the folder of the project. ARGUMENTS: as JSON.
"""

import importlib
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import torch
from safetensors.torch import load_file, load_model, save_model

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
sys.path.insert(0, ".")
package, place, arguments, mesh = sys.argv[1:]
file, _, name = place.partition(":")
sys.path.insert(0, str(Path(file).parent))
cls = getattr(importlib.import_module(Path(file).stem), name)
config, steps_module, weights, pipeline = (
    importlib.import_module(f"{package}.{part}")
    for part in ("config", "steps", "weights", "pipeline")
)
export = importlib.import_module(f"{package}.runtime.checkpoints.export").export
make_mesh = importlib.import_module(f"{package}.runtime.layout.mesh").make_mesh
RATE, STEPS, ROWS = 1e-3, 5, 8

torch.manual_seed(0)
net = cls(**json.loads(arguments)).train()
save_model(net, "start.safetensors")
start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
optimizer = replace(
    config.TINY.optimizer, learning_rate=RATE, warmup_steps=0, weight_decay=0.1, clip_norm=1e9
)
optimizer = replace(optimizer, learning_rate_decay="constant")
train = replace(config.TINY.train, steps=STEPS, batch_size=ROWS)
settings = replace(config.PRESETS["full"], optimizer=optimizer, train=train)
rows = pipeline.examples(settings)[0]
batches = [pipeline.collate(rows[i * ROWS : (i + 1) * ROWS]) for i in range(STEPS)]

matrices = [p for p in net.parameters() if p.ndim > 1]
others = [p for p in net.parameters() if p.ndim < 2]
groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
adamw = torch.optim.AdamW(
    groups, lr=RATE, betas=(optimizer.beta1, optimizer.beta2), eps=optimizer.adam_epsilon
)


def as_torch(array):
    """An array of a batch, whose whole numbers are long."""
    tensor = torch.from_numpy(np.asarray(array))
    return tensor.long() if not tensor.is_floating_point() else tensor


def loss_of(net, batch):
    """The loss that the project's pipeline has, in PyTorch."""
    batch = {key: as_torch(array) for key, array in batch.items()}
    label = batch.pop("label", None)
    output = net(**batch)
    logits = output["logits"] if isinstance(output, dict) else output
    if label is not None:
        return torch.nn.functional.cross_entropy(logits, label)
    (ids,) = batch.values()
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


theirs = []
for batch in batches:
    adamw.zero_grad()
    loss = loss_of(net, batch)
    loss.backward()
    adamw.step()
    theirs.append(loss.item())

axes = dict(axis.split("=") for axis in mesh.split(","))
axes = {"data": 1, "fsdp": 1, "model": 1} | {axis: int(size) for axis, size in axes.items()}


def write(state, folder):
    """The tensors of an export of a state."""
    shutil.rmtree(folder, ignore_errors=True)
    options = {"table": weights.tensors(settings.model), "shapes": steps.shapes}
    export(state.params, Path(folder), {}, variables=state.variables, **options)
    return load_file(f"{folder}/model.safetensors")


with jax.set_mesh(make_mesh(axes)):
    steps = steps_module.build(settings)
    state, absent = weights.load("start.safetensors", steps, settings)
    assert not absent, absent
    again = write(state, "again")
    assert all(torch.equal(again[name], start[name]) for name in again)
    ours = []
    for batch in batches:
        state, values = steps.train(state, jax.device_put(batch, steps.batch))
        ours.append(float(values["loss"]))
    print("losses", max(abs(a - b) for a, b in zip(ours, theirs, strict=True)))
    write(state, "exported")
    batch, valid_B = jax.device_put((batches[0], np.ones(ROWS, bool)), steps.batch)
    sums, count = steps.evaluate(state.model, batch, valid_B)
net = cls(**json.loads(arguments))
missing, _ = load_model(net, "exported/model.safetensors", strict=False)
assert all(name.endswith("num_batches_tracked") for name in missing), missing
with torch.no_grad():
    theirs = loss_of(net.eval(), batches[0]).item()
print("exported", abs(float(sums["loss"]) / float(count) - theirs))
