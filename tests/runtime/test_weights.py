"""Stored tensors to parameters: which, from where, into which shards, and what is said of a misfit."""

import json
import sys
import tracemalloc
from operator import attrgetter
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from safetensors.numpy import save_file

from redco_runtime.base.messages import UserError
from redco_runtime.checkpoints.load import load, make_buffer
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.base.state import ModelState, flatten
from redco_runtime.base.tensor_parts import part_tensors
from redco_runtime.base.tensors import Tensor

MODEL = {
    "embed": {"embedding": (6, 4)},
    "layers": {"q": {"kernel": (3, 4, 4)}, "k": {"kernel": (3, 4, 2)}},
    "experts": {"up": {"kernel": (3, 2, 4, 8)}},
    "norm": {"scale": (4,)},
}
SPECS = {
    "embed/embedding": P("model", "data"),
    "layers/q/kernel": P(None, "data", "model"),
    "layers/k/kernel": P(None, None, "model"),
    "experts/up/kernel": P(None, "data", None, "model"),
    "norm/scale": P(None),
}
TABLE = {
    "embed/embedding": Tensor("net.embed.weight"),
    "layers/q/kernel": Tensor("net.{}.qk.weight", (1, 0), (0, 0, 4)),
    "layers/k/kernel": Tensor("net.{}.qk.weight", (1, 0), (0, 4, 6)),
    "experts/up/kernel": Tensor("net.{}.experts.{}.up.weight", (1, 0)),
    "norm/scale": Tensor("net.LayerNorm.weight"),
}
CONFIG = SimpleNamespace(model=None, train=SimpleNamespace(seed=0))
MESH = {"data": 2, "model": 2}


def module(table=TABLE, **settings):
    """What weights.py defines, of a config.json that transformers knows nothing of."""
    given = {
        "PREFIX": "net.",
        "IGNORED": ("*.mask",),
        "hf_config": lambda model: {"n": 1},
    } | settings
    return SimpleNamespace(tensors=lambda model: table, **given)


@pytest.fixture(autouse=True)
def no_config(monkeypatch):
    monkeypatch.setattr("redco_runtime.base.hf_files.check_config", lambda *_: False)


def random(shape, dtype=np.float32):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def stored():
    """name -> tensor, as the torch side keeps it."""
    found = {"net.embed.weight": random((6, 4)), "net.LayerNorm.weight": random((4,))}
    for i in range(3):
        found[f"net.{i}.qk.weight"] = random((6, 4)) + i
        for e in range(2):
            found[f"net.{i}.experts.{e}.up.weight"] = random((8, 4)) + 10 * e + i
    return found


def expected(tensors):
    layers = [tensors[f"net.{i}.qk.weight"].T for i in range(3)]
    ups = [[tensors[f"net.{i}.experts.{e}.up.weight"].T for e in range(2)] for i in range(3)]
    return {
        "embed/embedding": tensors["net.embed.weight"],
        "layers/q/kernel": np.stack([layer[:, :4] for layer in layers]),
        "layers/k/kernel": np.stack([layer[:, 4:] for layer in layers]),
        "experts/up/kernel": np.array(ups),
        "norm/scale": tensors["net.LayerNorm.weight"],
    }


def write(folder, tensors, files=1):
    """A checkpoint in `files` files, with an index if there are several."""
    folder.mkdir(parents=True)
    names = [list(tensors)[i::files] for i in range(files)]
    if files == 1:
        save_file(tensors, folder / "model.safetensors")
        return folder
    where = {}
    for i, part in enumerate(names, 1):
        file = f"model-{i:05}-of-{files:05}.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        where |= dict.fromkeys(part, file)
    index = json.dumps({"metadata": {}, "weight_map": where})
    (folder / "model.safetensors.index.json").write_text(index)
    return folder


def steps(model=MODEL, specs=SPECS, stored_shapes=None):
    """What steps.py builds, on the mesh in place: parameters of `model`, initially 7."""

    def struct(shape, sharding=None):
        return jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)

    is_shape = dict(is_leaf=lambda x: isinstance(x, tuple))
    shapes = jax.tree.map(struct, model, **is_shape)
    like = jax.tree.map(struct, stored_shapes or model, **is_shape)
    places = [NamedSharding(jax.sharding.get_mesh(), specs[path]) for path in flatten(like)]
    places = jax.tree.unflatten(jax.tree.structure(like), places)
    like = jax.tree.map(lambda leaf, place: struct(leaf.shape, place), like, places)

    def init(key):
        params = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 7.0), like)
        return SimpleNamespace(model=ModelState(params, {}))

    state = SimpleNamespace(model=ModelState(like, {}))
    start = attrgetter("params")
    return SimpleNamespace(
        classes=None, state=state, shapes=flatten(shapes), init=init, start=start
    )


@pytest.fixture
def meshed():
    with jax.set_mesh(make_mesh(MESH)):
        yield


def check(params, tensors, specs=SPECS):
    found = flatten(params)
    for path, value in expected(tensors).items():
        assert found[path].sharding.spec == specs[path] and found[path].dtype == np.float32
        np.testing.assert_array_equal(np.asarray(found[path]), value)


@pytest.mark.parametrize("files", [1, 3])
def test_tensors_are_stacked_turned_and_cut_into_their_shards(files, tmp_path, meshed):
    folder = write(tmp_path / "c", stored(), files)
    params, kept = load(str(folder), steps(), CONFIG, module())
    check(params, stored())
    assert kept == []


@pytest.mark.parametrize("size", [64, 4096, 1 << 20])
def test_no_device_keeps_the_memory_that_shards_are_read_into(size):
    shard = make_buffer(size).view(np.float32)
    for device in jax.devices():
        shard.fill(1)
        held = jax.block_until_ready(jax.device_put(shard, device))
        shard.fill(2)
        assert (np.asarray(held) == 1).all()


def test_half_precision_becomes_the_dtype_of_the_parameter(tmp_path, meshed):
    tensors = {name: x.astype(ml_dtypes.bfloat16) for name, x in stored().items()}
    folder = write(tmp_path / "c", tensors)
    check(load(str(folder), steps(), CONFIG, module())[0], tensors)


def renamed(tensors, change):
    return {change(name): value for name, value in tensors.items()}


@pytest.mark.parametrize(
    "change",
    [
        lambda name: name.removeprefix("net."),
        lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma"),
        lambda name: name.replace("net.LayerNorm.weight", "LayerNorm.gamma"),
    ],
)
def test_other_spellings_of_a_name(change, tmp_path, meshed):
    folder = write(tmp_path / "c", renamed(stored(), change) | {"net.0.mask": random((2,))})
    check(load(str(folder), steps(), CONFIG, module())[0], stored())


def test_a_prefix_that_the_table_has_not(tmp_path, meshed):
    table = {path: Tensor(t.name[4:], t.order, t.part) for path, t in TABLE.items()}
    folder = write(tmp_path / "c", stored())
    check(load(str(folder), steps(), CONFIG, module(table))[0], stored())


def test_zeros_fill_what_is_padded(tmp_path, meshed):
    padded = {**MODEL, "embed": {"embedding": (10, 4)}, "norm": {"scale": (12,)}}
    specs = SPECS | {"norm/scale": P(("data", "model"))}  # its last shard is all zeros
    folder = write(tmp_path / "c", stored())
    params, _ = load(str(folder), steps(specs=specs, stored_shapes=padded), CONFIG, module())
    embedding, scale = params["embed"]["embedding"], np.asarray(params["norm"]["scale"])
    assert (embedding.shape, scale.shape) == ((10, 4), (12,))
    np.testing.assert_array_equal(np.asarray(embedding)[:6], stored()["net.embed.weight"])
    np.testing.assert_array_equal(scale[:4], stored()["net.LayerNorm.weight"])
    assert not np.asarray(embedding)[6:].any() and not scale[4:].any()


def test_parameters_that_the_table_does_not_name_keep_their_initial_values(tmp_path, meshed):
    model = {**MODEL, "adapter": {"kernel": (4, 2)}}
    specs = SPECS | {"adapter/kernel": P("model", None)}
    folder = write(tmp_path / "c", stored())
    params, kept = load(str(folder), steps(model, specs), CONFIG, module())
    check(params, stored())
    assert kept == ["adapter/kernel"]
    assert params["adapter"]["kernel"].sharding.spec == P("model", None)
    assert (np.asarray(params["adapter"]["kernel"]) == 7).all()


@pytest.mark.parametrize("classes", [None, 3, 2])
def test_a_head_of_other_classes_keeps_its_initial_value(classes, tmp_path, meshed):
    model, specs = {**MODEL, "head": {"kernel": (4, 2)}}, SPECS | {"head/kernel": P("model", None)}
    table = TABLE | {"head/kernel": Tensor("head.weight", (1, 0), optional=True)}
    tensors = stored() | ({"head.weight": random((classes, 4))} if classes else {})
    folder = write(tmp_path / "c", tensors)
    params, kept = load(str(folder), steps(model, specs), CONFIG, module(table))
    check(params, stored())
    assert kept == ([] if classes == 2 else ["head/kernel"])
    head = tensors["head.weight"].T if classes == 2 else np.full((4, 2), 7)
    np.testing.assert_array_equal(params["head"]["kernel"], head)


def test_missing_extra_and_misshapen_tensors_are_named_together(tmp_path, meshed):
    tensors = stored() | {"net.0.extra": random((2,)), "net.1.qk.weight": random((6, 5))}
    del tensors["net.embed.weight"]
    folder = write(tmp_path / "c", tensors)
    table = TABLE | {"gone/kernel": Tensor("net.gone")}
    with pytest.raises(UserError) as caught:
        load(str(folder), steps(), CONFIG, module(table))
    assert str(caught.value).splitlines() == [
        f"--init: the tensors of {folder} do not fit the model:",
        "  gone/kernel: in tensors() of weights.py, and no parameter",
        "  net.0.extra: there, and no parameter is made of it",
        "  net.embed.weight: missing, for embed/embedding",
        "  net.1.qk.weight: (6, 5) there, (6, 4) here, for layers/q/kernel, layers/k/kernel",
        "Choose a checkpoint of this model, or say in weights.py what belongs where.",
    ]


def test_of_many_faults_the_first_are_named_and_the_rest_counted(tmp_path, meshed):
    tensors = stored() | {f"z.{i:02}": random((1,)) for i in range(30)}
    folder = write(tmp_path / "c", tensors)
    with pytest.raises(UserError) as caught:
        load(str(folder), steps(), CONFIG, module())
    lines = str(caught.value).splitlines()
    assert len(lines) == 23 and lines[20].startswith("  z.19: ") and lines[21] == "  and 10 more"


def test_a_host_holds_one_shard_at_a_time(tmp_path, meshed):
    """16 parameters of 2 MiB in four files; a shard has half of one, and is stored as one piece."""
    rows, names = 1024, [f"p{i}" for i in range(16)]
    folder = write(tmp_path / "c", {name: random((rows, 512)) for name in names}, files=4)
    model = {name: (rows, 512) for name in names}
    made = steps(model, dict.fromkeys(names, P("model", None)))
    named = module({name: Tensor(name) for name in names})
    load(str(folder), made, CONFIG, named)  # what imports and caches take
    tracemalloc.start()
    params, _ = load(str(folder), made, CONFIG, named)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    shard = rows // 2 * 512 * 4
    assert sum(x.nbytes for x in params.values()) == 32 * shard
    assert shard < peak < 2.2 * shard


def test_a_shard_is_read_once_for_all_devices_that_hold_it(tmp_path, meshed, monkeypatch):
    from redco_runtime.base.hf_files import Stored

    seen = []
    read = Stored.read
    monkeypatch.setattr(Stored, "read", lambda *args: seen.append(args[1:]) or read(*args))
    folder = write(tmp_path / "c", stored())
    load(str(folder), steps(), CONFIG, module())
    assert len([name for name, _ in seen if name == "net.LayerNorm.weight"]) == 1
    halves = [index for name, index in seen if name == "net.1.qk.weight" and index[0].start >= 4]
    assert halves == [(slice(4, 5), slice(0, 4)), (slice(5, 6), slice(0, 4))]
    assert len(seen) == len({(name, str(index)) for name, index in seen})


def worker(port: str, process: str, folder: str) -> None:
    """Loads on four devices of two processes, each of which reads half of what is split over data."""
    from redco_runtime.base import hf_files

    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    hf_files.check_config = lambda *_: False
    with jax.set_mesh(make_mesh(MESH)):
        params, _ = load(folder, steps(), CONFIG, module())
        whole = expected(stored())
        for path, leaf in flatten(params).items():
            assert not leaf.is_fully_addressable
            for shard in leaf.addressable_shards:
                np.testing.assert_array_equal(shard.data, whole[path][shard.index])


def test_two_processes_read_their_own_shards(tmp_path, run_processes):
    run_processes(__file__, write(tmp_path / "c", stored(), files=2))


if __name__ == "__main__":
    worker(*sys.argv[1:])


def test_parts_of_a_tensor_are_ranges_of_its_stored_dim():
    table = {"w": Tensor("w", order=(1, 0)), "layers/b": Tensor("h.{}.b"), "o": Tensor("o")}
    apart = {"w": (1, (4, 2, 2)), "layers/b": (1, (3, 5))}
    assert part_tensors(table, apart) == {
        "w/0": Tensor("w", (1, 0), (0, 0, 4)),
        "w/1": Tensor("w", (1, 0), (0, 4, 6)),
        "w/2": Tensor("w", (1, 0), (0, 6, 8)),
        "layers/b/0": Tensor("h.{}.b", part=(0, 0, 3)),
        "layers/b/1": Tensor("h.{}.b", part=(0, 3, 8)),
        "o": Tensor("o"),
    }
