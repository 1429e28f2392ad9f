"""What a program does with an input, of programs of one line each."""

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn

from redco_new.own.uses import find_uses

B, S, D, V = 8, 6, 4, 9
IDS, BOOLS, FLOATS = (jnp.zeros((B, S), dtype) for dtype in (jnp.int32, bool, jnp.float32))
LOW, RATES = jnp.finfo(jnp.float32).min, 1 / 1e4 ** (jnp.arange(D) / D)
CONSTANT = jnp.ones((32, D))


def use_of(function, x):
    """What `function` of a table (V, D), of data (B, S, D) and of x does with x."""
    program = jax.make_jaxpr(function)(jnp.zeros((V, D)), jnp.zeros((B, S, D)), x)
    return find_uses(program, ["", "data", "x"], [True, False, False]).uses()["x"]


def scores(data):
    return data @ data.swapaxes(1, 2)


@pytest.mark.parametrize(
    ("rows", "function"),
    [
        (V, lambda t, data, x: jnp.take(t.astype(jnp.bfloat16), x, axis=0)),
        (V, lambda t, data, x: t[jnp.roll(x, 1, axis=1).at[:, 0].set(0)]),
        (V, lambda t, data, x: t[jnp.pad(x, ((0, 0), (1, 0)))[:, :-1]] * (x != 0)[..., None]),
        (V, lambda t, data, x: t[jnp.where(x == -100, 0, jnp.clip(x, 0, V - 1))]),
        (V, lambda t, data, x: jax.checkpoint(lambda x: t[x])(x)),
        (V, lambda t, data, x: jax.nn.one_hot(x, V) @ t),
        (V - 2, lambda t, data, x: t[x + 2]),
        (S, lambda t, data, x: jnp.take_along_axis(data, x[..., None], axis=1)),
        (None, lambda t, data, x: data[jnp.arange(B), x[:, 0]]),  # a row each, of the batch too
        (None, lambda t, data, x: t[x * 2]),
        (None, lambda t, data, x: data * jnp.cos(x[..., None] * RATES)),
    ],
)
def test_tables(rows, function):
    tables = use_of(function, IDS).tables
    assert {table.rows for table in tables} == ({rows} if rows else set())


@pytest.mark.parametrize(
    ("hides", "x", "function"),
    [
        (False, IDS, lambda x, data: jnp.where(x[:, None] > 0, scores(data), -1e9)),
        (True, IDS, lambda x, data: jnp.where(x[:, None] == 0, scores(data), -1e9)),
        (True, BOOLS, lambda x, data: jnp.where(x[:, None], LOW, scores(data))),
        (True, BOOLS, lambda x, data: jnp.where(~x[:, None], scores(data), LOW)),
        (False, IDS, lambda x, data: scores(data) + (1.0 - x[:, None]) * LOW),
        (False, FLOATS, lambda x, data: scores(data) + (x[:, None] - 1) * 1e9),
        (True, FLOATS, lambda x, data: scores(data) + x[:, None] * -1e9),
        (
            False,
            IDS,
            lambda x, data: jax.lax.scan(lambda c, _: (c * x[..., None], 0), data, None, 2),
        ),
        (
            False,
            IDS,
            lambda x, data: jnp.where(
                nn.combine_masks(nn.make_attention_mask(x, x), nn.make_causal_mask(x)) > 0,
                scores(data)[:, None],
                -1e10,
            ),
        ),
    ],
)
def test_masks(hides, x, function):
    use = use_of(lambda t, data, x: function(x, data), x)
    assert (use.mask, use.hides, use.tables, use.positions) == (True, hides, (), False)


def test_positions_lengths_and_segments():
    assert use_of(lambda t, data, x: data * jnp.cos(x[..., None] * RATES), IDS).positions
    assert use_of(lambda t, data, x: data * CONSTANT[x], IDS).positions
    assert use_of(lambda t, data, x: jnp.sin(jnp.einsum("bs,d->bsd", x, RATES)), IDS).positions
    assert use_of(lambda t, data, x: jnp.arange(S) < x[:, None], IDS[:, 0]).length == S
    assert use_of(lambda t, data, x: x[:, None] == x[:, :, None], IDS).segments


def test_numbers_are_none_of_these():
    use = use_of(lambda t, data, x: (x / 255 - 0.5) @ t[:S], IDS)
    assert not (use.tables or use.positions or use.length or use.mask)
