"""A model that cannot be traced ends in one message: the line, what is wrong, what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from redco_plan import ShardingError, error_advice
from redco_plan.trace import trace

X = {"x": jax.ShapeDtypeStruct((4, 8), jnp.float32)}
W = {"w": jax.ShapeDtypeStruct((8, 8), jnp.float32)}


def branches(params, batch):
    y = batch["x"] @ params["w"]
    if y.sum() > 0:  # the branch
        return y
    return -y


def missing_input(params, batch):
    return batch["x"] @ params["w"] + batch["labels"]  # the branch


def missing_parameter(params, batch):
    return batch["x"] @ params["v"]  # the branch


def in_numpy(params, batch):
    return np.tanh(np.asarray(batch["x"])) @ params["w"]  # the branch


def by_mask(params, batch):
    return batch["x"][batch["x"] > 0] * params["w"][0, 0]  # the branch


def as_size(params, batch):
    return jnp.zeros(int(batch["x"].sum())) @ params["w"]  # the branch


def wrong_shape(params, batch):
    return params["w"] @ batch["x"]  # the branch


def inside_a_loop(params, batch):
    def step(x, _):
        return (x if x.max() > 0 else -x), None  # the branch

    return jax.lax.scan(jax.checkpoint(step), batch["x"], length=3)[0]


def by_hand(params, batch):
    raise RuntimeError()  # the branch


ADVICE = {
    branches: "jnp.where or jax.lax.cond",
    inside_a_loop: "jnp.where or jax.lax.cond",
    missing_input: "add it to them",
    missing_parameter: "add it to them",
    in_numpy: "jax.numpy instead of numpy",
    by_mask: "multiply by the mask",
    as_size: "a static shape for a size",
    wrong_shape: "fix the line, or the shapes",
    by_hand: "RuntimeError: no message",
}


@pytest.mark.parametrize("forward", ADVICE, ids=lambda f: f.__name__)
def test_the_message_names_the_line_and_what_to_do(forward):
    with pytest.raises(ShardingError) as error:
        trace(forward, W, X)
    message = str(error.value)
    code = forward.__code__
    line = message.split(":")[1].split()[0]
    assert message.startswith(__file__)
    assert code.co_firstlineno < int(line) <= code.co_firstlineno + 5
    assert "# the branch`" in message
    assert ADVICE[forward] in message
    assert len(message.splitlines()) == 2


def test_a_leaf_that_is_no_array_is_named():
    with pytest.raises(ShardingError, match="parameter a/b is a str, not an array"):
        trace(branches, {"a": {"b": "text"}}, X)


def test_sharding_errors_are_value_errors():
    assert issubclass(ShardingError, ValueError)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("absent.part", "pip install absent where redco-new is"),
        ("numpy.absent", "mend that line, or install the version of it that has that"),
        (None, "mend that line, or install the version of it that has that"),
    ],
)
def test_a_module_that_is_missing_is_installed(name, advice):
    assert error_advice(ModuleNotFoundError(name=name)) == advice
