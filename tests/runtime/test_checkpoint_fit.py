"""A checkpoint and a model that is not the one that wrote it: what is said, and what is no change."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.messages import MOST_LINES, UserError
from redco_runtime.checkpoints.tensors import differences
from redco_runtime.base.state import ModelState, flatten, new_state
from states import OPTIMIZER, abstract, assert_same, make_state, save_steps


def faults(directory, state):
    """What is said of a state that the newest checkpoint does not fit."""
    with pytest.raises(UserError) as error:
        Checkpoints(directory, keep=3).restore(state)
    return str(error.value).splitlines()[1:-1]


def with_params(mesh, change):
    """The abstract state of a model whose parameters `change` makes of those of make_state."""
    params = change(abstract(make_state(mesh).params))
    whole = NamedSharding(mesh, P())
    state = jax.eval_shape(lambda: new_state(ModelState(params, {}), OPTIMIZER, 1))
    return jax.tree.map(lambda leaf: leaf.update(sharding=whole), state)


def test_the_optimizer_is_not_named_where_its_parameter_is(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1)

    def change(params):
        del params["scale"]
        return params | {"new": jax.ShapeDtypeStruct((3,), jnp.float32)}

    assert faults(tmp_path, with_params(mesh, change)) == [
        "  scale: bfloat16[8] there, absent in the model",
        "  new: absent there, float32[3] in the model",
    ]


def test_another_optimizer_has_a_line_for_all_parameters(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1)
    state = abstract(make_state(mesh))
    state = replace(state, opt_state=optax.sgd(0.1, momentum=0.9).init(state.params))
    assert faults(tmp_path, state) == [
        "  opt_state/1/0/count: int32[] there, absent in the model",
        "  opt_state/1/0/mu/*: float32 there, absent in the model",
        "  opt_state/1/0/mu/*: bfloat16 there, absent in the model",
        "  opt_state/1/0/nu/*: float32 there, absent in the model",
        "  opt_state/1/0/nu/*: bfloat16 there, absent in the model",
        "  opt_state/0/trace/*: absent there, float32 in the model",
        "  opt_state/0/trace/*: absent there, bfloat16 in the model",
    ]


def test_another_dtype_of_what_the_optimizer_keeps(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1)
    state = abstract(make_state(mesh))
    halved = jax.tree.map(lambda leaf: leaf.update(dtype=jnp.bfloat16), state.opt_state[1][0].mu)
    adam = state.opt_state[1][0]._replace(mu=halved)
    state = replace(state, opt_state=(state.opt_state[0], (adam, *state.opt_state[1][1:])))
    assert faults(tmp_path, state) == ["  opt_state/1/0/mu/*: float32 there, bfloat16 in the model"]


def test_of_many_differences_the_first_of_each_kind_are_named(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1)

    def change(params):
        params["layers"] = {
            f"new_{i:02}": jax.ShapeDtypeStruct((3,), jnp.float32) for i in range(30)
        }
        return params

    lines = faults(tmp_path, with_params(mesh, change))
    assert lines[0] == "  layers/q/kernel: float32[8, 8] there, absent in the model"
    assert lines[1] == "  layers/new_00: absent there, float32[3] in the model"
    assert lines[10:] == ["  layers/new_09: absent there, float32[3] in the model", "  and 20 more"]


def padded_state(mesh, rows, size, value):
    """Of a table of `size` rows, all `value`, with zeros to make it `rows`; its moments too."""
    split, whole = NamedSharding(mesh, P(("data", "model"), None)), NamedSharding(mesh, P())

    def make():
        table = jnp.where(jnp.arange(rows)[:, None] < size, value, jnp.zeros((rows, 2)))
        params = {"table": table, "bias": jnp.ones(5)}
        state = new_state(ModelState(params, {}), OPTIMIZER, 1)
        moments = jax.tree.map(lambda x: 2 * x, params)
        adam = state.opt_state[1][0]._replace(mu=moments)
        return replace(state, opt_state=(state.opt_state[0], (adam, *state.opt_state[1][1:])))

    places = jax.tree.map(lambda leaf: split if leaf.ndim == 2 else whole, jax.eval_shape(make))
    return jax.jit(make, out_shardings=places)()


def shapes(size):
    return {"table": jax.ShapeDtypeStruct((size, 2), jnp.float32), "bias": np.zeros(5)}


@pytest.mark.parametrize("size", [10, 12])  # padded there, and not
@pytest.mark.parametrize("devices", [1, 3, 4])
def test_padding_becomes_that_of_the_mesh(tmp_path, size, devices):
    def on(count):
        mesh = Mesh(np.array(jax.devices()[:count]).reshape(1, count), ("data", "model"))
        return padded_state(mesh, -(-size // count) * count, size, 3.0)

    with Checkpoints(tmp_path, shapes=shapes(size)) as checkpoints:
        checkpoints.save(1, on(4))
    _, state = Checkpoints(tmp_path, shapes=shapes(size)).restore(abstract(on(devices)))
    assert_same(state, on(devices))


def test_another_size_is_no_padding(tmp_path, mesh):
    state = padded_state(mesh, 12, 10, 3.0)
    with Checkpoints(tmp_path, shapes=shapes(10)) as checkpoints:
        checkpoints.save(1, state)
    for size, rows in ((11, 12), (12, 12), (9, 12), (8, 8)):
        wanted = abstract(padded_state(mesh, rows, size, 3.0))
        with pytest.raises(UserError) as error:
            Checkpoints(tmp_path, shapes=shapes(size)).restore(wanted)
        assert str(error.value).splitlines()[1:-1] == [
            f"  table: float32[10, 2] there, float32[{size}, 2] in the model"
        ]


def test_what_is_padded_alike_needs_no_shapes(tmp_path, mesh):
    """As checkpoints that were written before shapes were, and programs that give none."""
    state = padded_state(mesh, 12, 10, 3.0)
    for saved, given in ((None, shapes(10)), (shapes(10), None)):
        with Checkpoints(tmp_path / str(saved is None), shapes=saved) as checkpoints:
            checkpoints.save(1, state)
            checkpoints.wait()
            found = Checkpoints(checkpoints.directory, shapes=given)
            assert_same(found.restore(abstract(state))[1], state)
            with pytest.raises(UserError, match=r"table: float32\[12, 2\] there, float32\[16, 2\]"):
                found.restore(abstract(padded_state(mesh, 16, 10, 3.0)))


def test_a_checkpoint_of_a_time_without_variables_is_restored(tmp_path, mesh):
    """Earlier states of models that hold parameters alone had None where there is {} now."""
    state = make_state(mesh)
    earlier = replace(state, variables=None)
    assert flatten(earlier).keys() == flatten(state).keys()
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, earlier)
    assert_same(Checkpoints(tmp_path).restore(abstract(state))[1], state)
    _, model = Checkpoints(tmp_path).restore_model(abstract(state).model)
    assert_same(model, state.model)


def test_the_model_of_a_run_with_a_moving_average_is_that_average(tmp_path, mesh):
    state = make_state(mesh)
    average = jax.tree.map(lambda x: x + 1, state.params)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, replace(state, ema=average))
        _, model = checkpoints.restore_model(abstract(state).predictor)
    assert_same(model.params, average)
    assert faults(tmp_path, abstract(state)) == [
        "  ema/*: float32 there, absent in the model",
        "  ema/*: bfloat16 there, absent in the model",
    ]


@pytest.mark.parametrize("average", [False, True])
def test_what_an_earlier_version_trained_is_a_variable_now(tmp_path, mesh, average):
    """Its value is read, what the optimizer kept of it is left out; of another size it is refused."""
    params = {"kernel": jnp.ones((4, 4)), "bias": jnp.arange(4.0)}
    before = new_state(ModelState(params, {}), OPTIMIZER, 1, average)
    with Checkpoints(tmp_path, shapes=params) as checkpoints:
        checkpoints.save(1, before)

    def model(size):
        return ModelState({"kernel": jnp.zeros((4, 4))}, {"bias": jnp.zeros(size)})

    place = NamedSharding(mesh, P())
    wanted = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
        new_state(model(4), OPTIMIZER, 1, average),
    )
    reader = Checkpoints(tmp_path, shapes={"kernel": params["kernel"]})
    _, state = reader.restore(wanted)
    assert state.variables["bias"].tolist() == [0, 1, 2, 3] and (state.params["kernel"] == 1).all()
    assert reader.restore_model(wanted.model)[1].variables["bias"].tolist() == [0, 1, 2, 3]
    wanted = replace(
        wanted, variables=jax.tree.map(lambda x: x.update(shape=(5,)), wanted.variables)
    )
    with pytest.raises(UserError, match="bias: float32"):
        reader.restore(wanted)


def test_differences_of_one_kind_have_the_whole_screen():
    lines = differences({}, {f"params/{i:02}": "float32[3]" for i in range(99)})
    assert lines[MOST_LINES - 1 :] == [
        f"{MOST_LINES - 1}: absent there, float32[3] in the model",
        f"and {99 - MOST_LINES} more",
    ]
    assert differences({}, {}) == []
