"""Classes that say where their arrays lie: redco ignores it, says so, and their projects do too."""

import json
from pathlib import Path

import jax
import pytest
from flax import nnx
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from redco_runtime.layout.unsharded import unsharded

from generated import find_own

from redco_new.cli.look import inspect_model
from redco_new.own.annotations import MESH, names_in_variables, places_arrays
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input, OwnClass

HERE = Path(__file__).parent
AXES = {
    "nets_sharded.py:Placed": "axes data, fsdp, layers, model, tp",
    "nets_sharded.py:Boxed": "axes embed, layers, mlp, tp",
    "nets_sharded.py:Constrained": "in its code",
    "nets_nnx.py:Pair": "",
}


@pytest.mark.parametrize(("model", "axes"), AXES.items())
def test_what_is_ignored(model, axes):
    arguments = {"width": 8} if axes else {"dims": {"in": 12, "hidden": 8, "out": 2}}
    told = OwnClass(arguments, {"x": Input((12,))}, output="" if axes else "0")
    own = find_own(model, "classify", told, "my-project", HERE)
    assert own.abstract.shardings == axes
    assert bool(own.source.decorators) == bool(own.notes) == bool(axes)


def test_inspect_says_what_it_ignores(tmp_path, capsys):
    (tmp_path / "net.toml").write_text('[model]\nwidth = 8\n[inputs]\nx = {shape = ["B", 12]}\n')
    flags = {"recipe": "classify", "shards": "2", "config": str(tmp_path / "net.toml")}
    inspect_model(str(HERE / "nets_sharded.py:Placed"), **flags, as_json=True)
    said = capsys.readouterr()
    assert "note: ignored: the sharding annotations of Placed" in said.err
    assert json.loads(said.out)["parameters"]


def test_a_mesh_is_neither_seen_nor_lost():
    placed = find_reference("--model", "nets_sharded.py:Placed", HERE).value

    @unsharded
    class Net(nnx.Module):
        def __init__(self):
            self.net = placed(8, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return self.net(x)

    x = jax.ShapeDtypeStruct((4, 12), "float32")
    with jax.set_mesh(jax.make_mesh((2, 2), ("data", "tp"), axis_types=(AxisType.Auto,) * 2)):
        names = names_in_variables(nnx.eval_shape(Net))
        call = jax.make_jaxpr(lambda x: Net()(x))(x)
        other = jax.make_jaxpr(lambda x: jax.lax.with_sharding_constraint(x, P("data")))(x)
    assert not names
    assert not places_arrays(call.jaxpr)
    assert places_arrays(other.jaxpr)


def test_dropout_places_nothing():
    with jax.sharding.use_abstract_mesh(MESH):
        drop = jax.make_jaxpr(lambda x: nnx.Dropout(0.5, rngs=nnx.Rngs(0))(x))(jax.numpy.ones(4))
    assert not places_arrays(drop.jaxpr)  # jax.random reshards, to no axis
