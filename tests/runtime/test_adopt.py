"""A new run that starts from what another one trained, of this project or of one that was changed."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.messages import UserError
from redco_runtime.checkpoints.load import adopt
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.base.state import ModelState, new_state

CONFIG = SimpleNamespace(train=SimpleNamespace(seed=0))


def steps(shapes, padded=0):
    """Those of a model whose parameters are initially 7, and its variable `mean` 5, on the mesh in
    place; padded: rows that it adds to w."""
    mesh = jax.sharding.get_mesh()
    split, whole = NamedSharding(mesh, P("model", None)), NamedSharding(mesh, P())

    def start(model):
        return new_state(model, optax.trace(0.9))

    def init(key):
        sizes = shapes | {"w": (shapes["w"][0] + padded, shapes["w"][1])}
        params = {name: jnp.full(shape, 7.0) for name, shape in sizes.items()}
        return start(ModelState(params, {"mean": jnp.full(2, 5.0)}))

    state = jax.eval_shape(init, jax.random.key(0))
    places = jax.tree.map(lambda leaf: split if leaf.ndim == 2 else whole, state)
    return SimpleNamespace(
        state=jax.tree.map(lambda leaf, place: leaf.update(sharding=place), state, places),
        shapes={name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()},
        init=jax.jit(init, out_shardings=places),
        start=jax.jit(start, out_shardings=places),
    )


@pytest.fixture
def saved(tmp_path):
    """The folder of a checkpoint with w, of 6 rows and two more of padding, old and mean."""
    with jax.set_mesh(make_mesh({"model": 4})):
        made = steps({"w": (6, 2), "old": (3,)}, padded=2)
        w = jnp.pad(jnp.arange(12.0).reshape(6, 2), ((0, 2), (0, 0)))
        params, variables = {"w": w, "old": jnp.ones(3)}, {"mean": jnp.full(2, 9.0)}
        state = made.start(ModelState(params, variables))
        with Checkpoints(tmp_path, shapes=made.shapes) as checkpoints:
            checkpoints.save(3, state)
    return tmp_path


@pytest.mark.parametrize("axes", [{"model": 2, "data": 2}, {"model": 4}])
def test_what_both_models_have_is_taken_and_the_rest_named(saved, axes):
    with jax.set_mesh(make_mesh(axes)):
        made = steps({"w": (6, 2), "new": (4,)}, padded=-6 % axes["model"])
        state, kept, unused = adopt(saved, made, CONFIG)
        assert jax.tree.map(lambda leaf: leaf.sharding, state) == jax.tree.map(
            lambda leaf: leaf.sharding, made.state
        )
    assert (kept, unused) == (["new"], ["old"])
    assert np.asarray(state.params["w"])[:6].ravel().tolist() == list(range(12))
    assert not np.asarray(state.params["w"])[6:].any()
    assert state.params["new"].tolist() == [7] * 4
    assert state.variables["mean"].tolist() == [9, 9]
    assert int(state.step) == 0 and not np.asarray(state.opt_state.trace["w"]).any()


def test_another_shape_is_named_with_both(saved):
    with jax.set_mesh(make_mesh({"model": 4})), pytest.raises(UserError) as error:
        adopt(saved, steps({"w": (8, 2), "new": (4,)}), CONFIG)
    lines = str(error.value).splitlines()
    assert lines[0] == f"checkpoint {saved}/3 does not fit the model:"
    assert lines[1:-1] == ["  w: float32[6, 2] there, float32[8, 2] in the model"]
    assert "another name in model.py" in lines[-1]


def test_a_dtype_becomes_that_of_the_model(saved):
    with jax.set_mesh(make_mesh({"model": 4})):
        made = steps({"w": (6, 2)}, padded=2)
        half = made.state.params["w"].update(dtype=jnp.bfloat16)
        made.state = replace(made.state, params={"w": half})
        params = adopt(saved, made, CONFIG)[0].params
    assert params["w"].dtype == jnp.bfloat16 and params["w"][1].tolist() == [2, 3]
