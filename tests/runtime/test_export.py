import json
import stat

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from safetensors.numpy import load_file

from redco_runtime.errors import UserError
from redco_runtime.export import export


@pytest.fixture
def params(mesh):
    split = NamedSharding(mesh, P("data", "model"))
    return {
        "embed": {"embedding": jax.device_put(jnp.arange(32.0).reshape(8, 4), split)},
        "layers": {"q": {"kernel": jnp.full((2, 4, 4), 1 / 3, jnp.bfloat16)}},
        "head": {"kernel": np.asarray(jnp.arange(8.0).reshape(2, 4)).T},  # not contiguous
        "scale": jnp.float32(2),
    }


def test_tensors_and_config_come_back(tmp_path, params):
    export(params, tmp_path / "out" / "model", {"model_dim": 4, "dtype": "bfloat16"})
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
    export(params, tmp_path / "model", {})
    found = torch.load_file(tmp_path / "model" / "model.safetensors")
    assert str(found["layers.q.kernel"].dtype) == "torch.bfloat16"
    assert found["embed.embedding"].tolist() == np.arange(32.0).reshape(8, 4).tolist()


def test_it_does_not_write_over_a_folder(tmp_path, params):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("")
    with pytest.raises(UserError, match="model is there already"):
        export(params, tmp_path / "model", {})
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "mine"]


def test_a_failure_leaves_nothing(tmp_path, params):
    with pytest.raises(TypeError):
        export(params, tmp_path / "model", {"not": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to(tmp_path, params):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write .*model: File exists. .* another --out"):
        export(params, tmp_path / "file" / "model", {})


def test_others_may_read_it(tmp_path, params):
    export(params, tmp_path / "model", {})
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "file").write_text("")

    def mode(name):
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    assert mode("model") == mode("plain")
    for name in ("config.json", "model.safetensors"):
        assert mode(f"model/{name}") == mode("plain/file")
