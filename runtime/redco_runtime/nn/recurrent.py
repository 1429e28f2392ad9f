"""Recurrences over the positions of a text: LSTM, GRU and RNN, with the parameters and the results of PyTorch's.

What they hold has PyTorch's names and shapes: weight_ih_l0, (gates * hidden, inputs). What is made of the inputs is
made for all positions at once; a scan over these has the rest.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from .dropout import Dropout
from .uniform import between


class _Recurrent(nnx.Module):
    """Layers of one recurrence, each over what the one before gives, or two of them, from both ends.

    GATES: how many matrices a layer has side by side. STATES: how many arrays (B, hidden) a position hands on.
    """

    GATES, STATES = 1, 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        num_layers: int = 1,
        use_bias: bool = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        dropout: float = 0.0,
        dtype: Any = jnp.float32,
        rngs: nnx.Rngs,
    ):
        self.hidden_size, self.num_layers, self.dtype = hidden_size, num_layers, dtype
        self.use_bias, self.batch_first = use_bias, batch_first
        self.directions = ("", "_reverse") if bidirectional else ("",)
        self.dropout = Dropout(dropout, rngs=rngs) if dropout else None
        rows, draw = self.GATES * hidden_size, between(hidden_size**-0.5)
        for layer in range(num_layers):
            width = len(self.directions) * hidden_size if layer else input_size
            shapes: dict[str, tuple[int, ...]]
            shapes = {"weight_ih": (rows, width), "weight_hh": (rows, hidden_size)}
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if use_bias else {}
            for end in self.directions:
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{end}", nnx.Param(draw(rngs.params(), shape)))

    def __call__(self, x: jax.Array, *states: jax.Array) -> tuple[jax.Array, ...]:
        """Return (what each position gives, *the last state of each layer and direction).

        x: (S, B, inputs), or (B, S, inputs) with `batch_first`; so is the first of what is given.
        states: to begin with, each (layers * directions, B, hidden); zeros where they are not given.
        """
        x_SBI = (x.swapaxes(0, 1) if self.batch_first else x).astype(self.dtype)
        if not states:
            shape = (self.num_layers * len(self.directions), x_SBI.shape[1], self.hidden_size)
            states = (jnp.zeros(shape, self.dtype),) * self.STATES
        last = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x_SBI = self.dropout(x_SBI.swapaxes(0, 1)).swapaxes(0, 1)
            sides = []
            for number, end in enumerate(self.directions):
                place = layer * len(self.directions) + number
                begin = tuple(state[place].astype(self.dtype) for state in states)
                end_states, y_SBH = self._run(x_SBI, begin, f"_l{layer}{end}", reverse=bool(end))
                sides.append(y_SBH)
                last.append(end_states)
            x_SBI = jnp.concatenate(sides, axis=-1)
        y = x_SBI.swapaxes(0, 1) if self.batch_first else x_SBI
        return y, *(jnp.stack(parts) for parts in zip(*last, strict=True))

    def _run(self, x_SBI: jax.Array, begin: tuple[jax.Array, ...], name: str, reverse: bool):
        """Return (the last states, y_SBH) of one layer in one direction."""

        def read(kind: str) -> jax.Array:
            return getattr(self, kind + name)[...].astype(self.dtype)

        bias_ih, bias_hh = (read("bias_ih"), read("bias_hh")) if self.use_bias else (0.0, 0.0)
        given_SBG, weight_hh = x_SBI @ read("weight_ih").T + bias_ih, read("weight_hh")

        def position(states: tuple[jax.Array, ...], given_BG: jax.Array):
            states = self.step(given_BG, states[0] @ weight_hh.T + bias_hh, *states)
            return states, states[0]

        return jax.lax.scan(position, begin, given_SBG, reverse=reverse)

    def step(
        self, given_BG: jax.Array, kept_BG: jax.Array, *states: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Return the next states, of what the gates get of the inputs and of the state."""
        raise NotImplementedError


class RNN(_Recurrent):
    """A plain recurrence (Elman, 1990): torch.nn.RNN."""

    def __init__(
        self, input_size: int, hidden_size: int, *, nonlinearity: str = "tanh", **options: Any
    ):
        super().__init__(input_size, hidden_size, **options)
        self.activation = jnp.tanh if nonlinearity == "tanh" else jax.nn.relu

    def step(self, given_BG: jax.Array, kept_BG: jax.Array, *states: jax.Array):
        """Return the next state."""
        return (rnn_step(given_BG, kept_BG, states[0], self.activation),)


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997): torch.nn.LSTM."""

    GATES, STATES = 4, 2

    def step(self, given_BG: jax.Array, kept_BG: jax.Array, *states: jax.Array):
        """Return (state, cell)."""
        return lstm_step(given_BG, kept_BG, *states)


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al., 2014): torch.nn.GRU."""

    GATES = 3

    def step(self, given_BG: jax.Array, kept_BG: jax.Array, *states: jax.Array):
        """Return the next state."""
        return (gru_step(given_BG, kept_BG, *states),)


def rnn_step(
    given_BG: jax.Array,
    kept_BG: jax.Array,
    state_BH: jax.Array,
    activation: Callable[[jax.Array], jax.Array] = jnp.tanh,
) -> jax.Array:
    """Return the next state, of what it gets of the input and of the state."""
    return activation(given_BG + kept_BG)


def lstm_step(
    given_BG: jax.Array, kept_BG: jax.Array, state_BH: jax.Array, cell_BH: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the next (state, cell), of what the gates get of the input and of the state."""
    enter, forget, new, leave = jnp.split(given_BG + kept_BG, 4, axis=-1)
    cell_BH = jax.nn.sigmoid(forget) * cell_BH + jax.nn.sigmoid(enter) * jnp.tanh(new)
    return jax.nn.sigmoid(leave) * jnp.tanh(cell_BH), cell_BH


def gru_step(given_BG: jax.Array, kept_BG: jax.Array, state_BH: jax.Array) -> jax.Array:
    """Return the next state, of what the gates get of the input and of the state."""
    reset, update, new = jnp.split(given_BG, 3, axis=-1)
    old_reset, old_update, old = jnp.split(kept_BG, 3, axis=-1)
    share_BH = jax.nn.sigmoid(update + old_update)
    new_BH = jnp.tanh(new + jax.nn.sigmoid(reset + old_reset) * old)
    return share_BH * state_BH + (1 - share_BH) * new_BH
