"""Weights of a project out, and in from each format; prints what is said of what does not fit.

python check_weights.py NAME, in the folder of the project.
"""

import importlib
import os
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import nnx, serialization, traverse_util
from safetensors.numpy import load_file, save_file

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
sys.path.insert(0, ".")
name = sys.argv[1]


def runtime(module):
    """A module of the project's own runtime."""
    return importlib.import_module(f"{name}.runtime.{module}")


UserError = runtime("base.messages").UserError
export = runtime("checkpoints.export").export
make_mesh = runtime("layout.mesh").make_mesh
flatten = runtime("base.state").flatten
config, sharding, steps_module, weights = (
    importlib.import_module(f"{name}.{part}") for part in ("config", "sharding", "steps", "weights")
)
folder = Path("files").absolute()
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir()


def find_model():
    """The class of model.py."""
    return next(value for key, value in vars(weights).items() if key.endswith("Model"))


with jax.set_mesh(make_mesh(sharding.AXES)):
    steps = steps_module.build(config.TINY)
    state = steps.init(jax.random.key(7))
    variables = jax.tree.map(lambda x: x + 3, state.variables)  # other than those of a new model
    table = weights.tensors(config.TINY.model)
    options = {"table": table, "variables": variables, "shapes": steps.shapes}
    export(state.params, folder / "exported", {}, **options)
    model = find_model()(config.TINY.model, rngs=nnx.Rngs(jax.random.key(7)))
exported = load_file(folder / "exported" / "model.safetensors")
tree = traverse_util.unflatten_dict(exported, sep=".")
print("exported:", *sorted(exported))


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def orbax(path, tree):
    with ocp.StandardCheckpointer() as writer:
        writer.save(path, tree)
    return path


def manager(path, **items):
    with ocp.CheckpointManager(path) as writer:
        for step in (9, 10):
            arguments = {k: ocp.args.StandardSave(v) for k, v in items.items()}
            writer.save(step, args=ocp.args.Composite(**arguments))
    return path


def turned():
    """The file of someone whose kernels are the other way round, and called weights."""
    return {
        f"model.{k}".replace("kernel", "weight"): v.T.copy() if k.endswith("kernel") else v
        for k, v in exported.items()
    }


params = tree.get("params", tree)
sources = {
    "msgpack": write(folder / "net.msgpack", serialization.to_bytes(tree)),
    "sharded msgpack": write(
        folder / "two" / "a.msgpack", serialization.to_bytes(dict([*tree.items()][:1]))
    ).parent,
    "orbax": orbax(folder / "orbax", tree),
    "a TrainState": orbax(
        folder / "state", {"step": 3, "params": tree, "opt_state": [{"mu": params}, None]}
    ),
    "a manager": manager(folder / "manager", **tree if "params" in tree else {"params": tree}),
}
write(folder / "two" / "b.msgpack", serialization.to_bytes(dict([*tree.items()][1:])))
for path, value in flatten(nnx.to_pure_dict(nnx.state(model, nnx.Param))).items():
    own = weights.own_paths(config.TINY.model)[path].replace("/", ".")
    np.testing.assert_array_equal(exported[own], value)
if tree is params:
    net = nnx.state(model, nnx.Not(nnx.RngState))["net"]
    nnx.replace_by_pure_dict(net, tree)
    sources["an nnx.State"] = orbax(folder / "nnx", net)
save_file(exported, folder / "one.safetensors")
sources["one file"] = folder / "one.safetensors"

with jax.set_mesh(make_mesh(sharding.AXES)):

    def load(source):
        return weights.load(str(source), steps, config.TINY)

    def check(source):
        """Loads it, and compares an export of that with the first one, bit for bit."""
        state, absent = load(source)
        assert not absent, absent
        again = folder / f"again-{Path(source).stem}"
        export(state.params, again, {}, **options | {"variables": state.variables})
        files = [x / "model.safetensors" for x in (folder / "exported", again)]
        assert files[0].read_bytes() == files[1].read_bytes(), source

    for source in sources.values():
        check(source)

    # Parameters alone, without the word "params" before them, as HF's Flax classes are saved.
    write(folder / "params.msgpack", serialization.to_bytes(params))
    state, absent = load(folder / "params.msgpack")
    print("absent:", *absent)

    save_file(turned(), folder / "turned.safetensors")
    own = weights.renamed

    def renamed(path):
        there = f"model/{path}".replace("kernel", "weight")
        rank = exported[path.replace("/", ".")].ndim if path.endswith("kernel") else 0
        return weights.Tensor(there, order=tuple(reversed(range(rank))))

    weights.renamed = renamed
    check(folder / "turned.safetensors")
    check(folder / "exported")  # which needs no renaming
    weights.renamed = own

    def refuse(label, source):
        try:
            load(source)
        except UserError as error:
            print(f"== {label}\n{error}".replace(str(folder), "files"))
        else:
            raise AssertionError(f"{label} was loaded")

    refuse("other names", folder / "turned.safetensors")
    first = next(k for k in exported if k.endswith("kernel"))
    save_file(exported | {first: exported[first][:-1]}, folder / "shape.safetensors")
    refuse("another shape", folder / "shape.safetensors")
    save_file({k: v for k, v in exported.items() if k != first}, folder / "less.safetensors")
    refuse("a missing key", folder / "less.safetensors")
    message = (folder / "net.msgpack").read_bytes()
    refuse("a damaged msgpack", write(folder / "short.msgpack", message[: len(message) // 2]))
    refuse("a pickle", write(folder / "net.pt", b"\x80\x04\x95\x00."))
    content = (folder / "one.safetensors").read_bytes()
    refuse("a damaged file", write(folder / "short.safetensors", content[: len(content) // 2]))
    for path in (folder / "orbax").rglob("d/*"):
        path.write_bytes(b"")
    refuse("a damaged tree", folder / "orbax")
    (folder / "empty").mkdir()
    refuse("an empty folder", folder / "empty")
    os.environ["HF_HUB_OFFLINE"] = "1"
    refuse("no file", "nowhere.msgpack")
