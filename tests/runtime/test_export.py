"""Parameters written as others read them, all of them or nothing."""

import json
import stat
import sys
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from safetensors.numpy import load_file

from redco_runtime.checkpoints import export as module
from redco_runtime.base.messages import UserError
from redco_runtime.checkpoints.export import export
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.base.tensors import Tensor

TABLE = {
    "layers/q/kernel": Tensor("net.{}.qk.weight", (1, 0), (0, 0, 4)),
    "layers/k/kernel": Tensor("net.{}.qk.weight", (1, 0), (0, 4, 6)),
    "experts/up": Tensor("net.{}.experts.{}.up", (2, 0, 1)),
    "head/kernel": Tensor("head.weight", (1, 0)),
    "scale": Tensor("norm.weight"),
}


@pytest.fixture
def params(mesh):
    split = NamedSharding(mesh, P("data", "model"))
    return {
        "embed": {"embedding": jax.device_put(jnp.arange(32.0).reshape(8, 4), split)},
        "layers": {"q": {"kernel": jnp.full((2, 4, 4), 1 / 3, jnp.bfloat16)}},
        "head": {"kernel": np.asarray(jnp.arange(8.0).reshape(2, 4)).T},  # not contiguous
        "scale": jnp.float32(2),
    }


OWN = {
    x: Tensor(x.replace("/", "."))
    for x in ("embed/embedding", "layers/q/kernel", "head/kernel", "scale")
}


def test_tensors_and_config_come_back(tmp_path, params):
    export(params, tmp_path / "out" / "model", {"model_dim": 4, "dtype": "bfloat16"}, table=OWN)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]
    found = load_file(tmp_path / "out" / "model" / "model.safetensors")
    expected = {
        "embed.embedding": params["embed"]["embedding"],
        "layers.q.kernel": params["layers"]["q"]["kernel"],
        "head.kernel": params["head"]["kernel"],
        "scale": params["scale"],
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape
        assert np.array_equal(found[name], np.asarray(value))
    config = json.loads((tmp_path / "out" / "model" / "config.json").read_text())
    assert config == {"model_dim": 4, "dtype": "bfloat16"}


def test_torch_reads_it(tmp_path, params):
    torch = pytest.importorskip("safetensors.torch")
    export(params, tmp_path / "model", {}, table=OWN)
    found = torch.load_file(tmp_path / "model" / "model.safetensors")
    assert str(found["layers.q.kernel"].dtype) == "torch.bfloat16"
    assert found["embed.embedding"].tolist() == np.arange(32.0).reshape(8, 4).tolist()


def test_it_does_not_write_over_a_folder(tmp_path, params):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("")
    with pytest.raises(UserError, match="model is there already"):
        export(params, tmp_path / "model", {}, table=OWN)
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "mine"]


def test_a_failure_leaves_nothing(tmp_path, params):
    with pytest.raises(TypeError):
        export(params, tmp_path / "model", {"not": object()}, table=OWN)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to(tmp_path, params):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write .*model: File exists. .* another --out"):
        export(params, tmp_path / "file" / "model", {}, table=OWN)


def test_others_may_read_it(tmp_path, params):
    export(params, tmp_path / "model", {}, table=OWN)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "file").write_text("")

    def mode(name):
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    assert mode("model") == mode("plain")
    for name in ("config.json", "model.safetensors"):
        assert mode(f"model/{name}") == mode("plain/file")


def arrays():
    """path -> a parameter whose numbers all differ, as `TABLE` has them."""
    shapes = {
        "layers/q/kernel": (3, 4, 4),
        "layers/k/kernel": (3, 4, 2),
        "experts/up": (3, 2, 4, 2, 6),
        "head/kernel": (4, 10),
        "scale": (4,),
    }
    return {path: np.arange(np.prod(s), dtype=np.float32).reshape(s) for path, s in shapes.items()}


def nest(flat):
    tree = {}
    for path, leaf in flat.items():
        *keys, last = path.split("/")
        inner = tree
        for key in keys:
            inner = inner.setdefault(key, {})
        inner[last] = leaf
    return tree


def sharded(mesh):
    """The arrays on a mesh: the layers whole, of the other dims one over model and one over data."""
    specs = {
        "layers/q/kernel": P(None, "data", "model"),
        "layers/k/kernel": P(None, None, "model"),
        "experts/up": P(None, "data", None, None, "model"),
        "head/kernel": P("data", "model"),
        "scale": P(None),
    }
    put = {path: NamedSharding(mesh, spec) for path, spec in specs.items()}
    return nest({path: jax.device_put(x, put[path]) for path, x in arrays().items()})


def expected():
    """name -> tensor, as `TABLE` says."""
    own = arrays()
    found = {"head.weight": own["head/kernel"].T, "norm.weight": own["scale"]}
    for i in range(3):
        qk = np.concatenate([own["layers/q/kernel"][i], own["layers/k/kernel"][i]], axis=1)
        found[f"net.{i}.qk.weight"] = qk.T
        for e in range(2):
            # The parameter's dims are the stored dims 2, 0 and 1.
            found[f"net.{i}.experts.{e}.up"] = own["experts/up"][i, e].transpose(1, 2, 0)
    return found


def check(folder, tensors=None):
    found, tensors = {}, expected() if tensors is None else tensors
    for path in folder.glob("*.safetensors"):
        found |= load_file(path)
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        assert np.array_equal(found[name], value), name


def test_tensors_are_named_turned_split_and_joined_as_the_table_says(tmp_path, mesh):
    export(sharded(mesh), tmp_path / "model", {}, table=TABLE)
    check(tmp_path / "model")


def test_several_files_have_an_index(tmp_path, mesh, monkeypatch):
    monkeypatch.setattr(module, "FILE_BYTES", 500)
    export(sharded(mesh), tmp_path / "model", {}, table=TABLE)
    check(tmp_path / "model")
    index = json.loads((tmp_path / "model" / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in (tmp_path / "model").glob("*.safetensors"))
    assert files[0] == f"model-00001-of-{len(files):05}.safetensors" and len(files) > 2
    sizes = {file: 0 for file in files}
    for name, file in index["weight_map"].items():
        found = load_file(tmp_path / "model" / file)
        sizes[file] += found[name].nbytes
    assert max(sizes.values()) <= 500 and min(sizes.values()) > 0
    assert index["metadata"]["total_size"] == sum(sizes.values())
    assert index["weight_map"].keys() == expected().keys()


def test_two_files_hold_what_one_has_no_room_for(monkeypatch):
    monkeypatch.setattr(module, "FILE_BYTES", 500)
    heads = {name: jax.ShapeDtypeStruct((100,), "float32") for name in ("a", "b")}
    assert [*module.split(heads).values()] == [["a"], ["b"]]


def test_zeros_that_pad_are_cut_off(tmp_path):
    own = arrays()
    shapes = nest({p: jax.ShapeDtypeStruct(x.shape, x.dtype) for p, x in own.items()})
    own["head/kernel"] = np.pad(own["head/kernel"], [(0, 0), (0, 2)])
    own["layers/k/kernel"] = np.pad(own["layers/k/kernel"], [(0, 0), (0, 0), (0, 2)])
    params = jax.tree.map(jnp.asarray, nest(own))
    export(params, tmp_path / "model", {}, table=TABLE, shapes=shapes)
    check(tmp_path / "model")


def test_a_table_that_does_not_fit_is_refused(tmp_path, mesh):
    table = {path: tensor for path, tensor in TABLE.items() if path != "scale"}
    with pytest.raises(UserError, match="weights.py does not fit the model: bias, scale: add"):
        export(sharded(mesh), tmp_path / "model", {}, table=table | {"bias": Tensor("norm.bias")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("generation", [{}, None])
def test_the_tokenizer_goes_with_it_and_its_ids(tmp_path, mesh, generation):
    from transformers import AutoTokenizer, ByT5Tokenizer

    config = {"bos_token_id": 50256, "decoder_start_token_id": 3, "n": 1}
    export(
        sharded(mesh),
        tmp_path / "model",
        config,
        table=TABLE,
        tokenizer=ByT5Tokenizer(),
        generation=generation,
    )
    read = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert isinstance(read, ByT5Tokenizer) and read("ab")["input_ids"] == [100, 101, 1]
    ids = {"eos_token_id": 1, "pad_token_id": 0}
    path = tmp_path / "model" / "generation_config.json"
    assert path.exists() == (generation is not None)  # a classifier writes no texts
    if path.exists():
        assert json.loads(path.read_text()) == ids | {"decoder_start_token_id": 3}
    found = json.loads((tmp_path / "model" / "config.json").read_text())
    assert found == config | ids | {"bos_token_id": None}


@pytest.mark.parametrize(("own", "every"), [([1, 3], [7, 1, 3]), (3, [7, 1, 3][::2]), (None, [7])])
def test_what_else_ends_a_text_is_in_its_generation_and_documents_lie_beside(
    tmp_path, mesh, own, every
):
    generation = {"top_k": 2} | ({} if own is None else {"eos_token_id": own})
    beside = {"of_mine.json": {"a": [1]}}
    options = {"table": TABLE, "generation": generation, "ends": [7], "beside": beside}
    export(sharded(mesh), tmp_path / "model", {"n": 1}, **options)
    written = json.loads((tmp_path / "model" / "generation_config.json").read_text())
    assert written == {"top_k": 2, "eos_token_id": every}
    assert json.loads((tmp_path / "model" / "of_mine.json").read_text()) == {"a": [1]}


def test_the_padding_of_a_model_is_its_own(tmp_path, mesh):
    from transformers import ByT5Tokenizer

    config = {"pad_token_id": 1, "vocab_size": 384}
    options = {"table": TABLE, "tokenizer": ByT5Tokenizer()}
    for size in (384, 1):  # of the words of another model
        export(sharded(mesh), tmp_path / f"{size}", config | {"vocab_size": size}, **options)
    documents = [json.loads((tmp_path / f"{n}/config.json").read_text()) for n in (384, 1)]
    assert [x["pad_token_id"] for x in documents] == [1, 0]


def test_a_host_holds_one_layer_of_one_parameter_at_a_time(tmp_path, mesh):
    """Eight stacked parameters of four layers of 1 MiB: 32 MiB in all."""
    split = NamedSharding(mesh, P(None, "data", "model"))
    params = {f"p{i}": jax.device_put(np.zeros((4, 512, 512), np.float32), split) for i in range(8)}
    table = {path: Tensor(f"{{}}.{path}", (1, 0)) for path in params}
    export(params, tmp_path / "first", {}, table=table)  # what imports and caches take
    tracemalloc.start()
    export(params, tmp_path / "model", {}, table=table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "model" / "model.safetensors").stat().st_size > 2**25
    assert 2**20 < peak < 2.2 * 2**20


def worker(port: str, process: str, folder: str) -> None:
    """Exports what lies on four devices of two processes."""
    from pathlib import Path

    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    with jax.set_mesh(make_mesh({"data": 2, "model": 2})):
        export(sharded(jax.sharding.get_mesh()), Path(folder), {"n": 1}, table=TABLE)


def test_two_processes_write_one_folder(tmp_path, run_processes):
    run_processes(__file__, tmp_path / "model")
    check(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


if __name__ == "__main__":
    worker(*sys.argv[1:])
