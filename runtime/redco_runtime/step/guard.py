"""Behind the steps, which the host runs ahead of: an update that is not sound never reaches the parameters, and ends the run."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base.messages import UserError, few
from ..base.progress import PROGRESS
from ..base.state import PyTree, TrainState

# Share of the mean of the gradients' norm that a step keeps: a mean over about 50 steps, which is long
# beside a spike and short beside the fall of the norm early in a run.
KEPT = 0.98
# Calls. More than one, so that a device need not wait for Python; far fewer than the 32 at which
# XLA's CPU client blocks (measured with collectives on virtual devices).
AHEAD = 4

Values = Mapping[str, Any]  # scalars by name, as the train step gives them


class UnsoundError(UserError):
    """The loss or the gradient of a step is no number that a run can go on from."""

    code, together = 3, True


def take_step(
    state: TrainState, changes: Mapping[str, PyTree], values: Values, spike: float
) -> tuple[TrainState, dict[str, jax.Array]]:
    """Return (the state after a step, values and whether it is "sound"), inside jit; if not, only `step` changes.

    changes: fields of the state, as the update leaves them. values: "loss", "grad_norm" and others;
    "loss" may be a dict of it and of terms, as `mean_and_gradients` gives it.
    """
    if isinstance(values["loss"], dict):
        values = {**values, **values["loss"]}
    norm, mean = values["grad_norm"].astype(jnp.float32), state.grad_norm
    sound = is_sound(state, values["loss"], norm, spike)
    mean = jnp.where(mean == 0, norm, KEPT * mean + (1 - KEPT) * norm)
    changes = {**changes, "grad_norm": mean}
    before = {name: getattr(state, name) for name in changes}

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        # In the update's own kernels, which have both at hand: no array is read or written once more.
        here = jax.typeof(new).memory_space == jax.memory.Space.Device  # else chosen on its way
        return jnp.where(sound, new, old) if here else new

    after = jax.tree.map(choose, changes, before)
    return replace(state, step=state.step + 1, **after), {**values, "sound": sound}


def is_sound(state: TrainState, loss: Any, norm: jax.Array, spike: float) -> jax.Array:
    """Return whether loss and gradient's norm are finite, and this at most `spike` times its mean (0: any)."""
    loss = loss["loss"] if isinstance(loss, dict) else loss
    sound = jnp.isfinite(loss) & jnp.isfinite(norm)
    return sound & ((state.grad_norm == 0) | (norm <= spike * state.grad_norm)) if spike else sound


class Guard:
    """Called after each step: waits for the one AHEAD before it, and looks whether it was sound.

    indices: step (from 0) -> indices of its examples, for the message.
    say: prints a line, of an update that was left out.
    Raises UnsoundError with `settings.on_nan` "stop", and for more than `settings.max_skips` in a row.
    """

    def __init__(
        self,
        settings: Any,
        indices: Callable[[int], np.ndarray],
        say: Callable[[str], None],
    ) -> None:
        self._settings, self._indices, self._say = settings, indices, say
        self._pending = deque[tuple[int, dict[str, Any]]]()
        self._in_a_row = 0

    def __call__(self, step: int, values: dict[str, Any]) -> None:
        """Take what `step` (steps done, so from 1) gave, and remove "sound" from it."""
        self._pending.append((step, {**values}))
        del values["sound"]
        if len(self._pending) > AHEAD:
            self._check(*self._pending.popleft())
        PROGRESS.at("the loop", step - 1)

    def settle(self) -> None:
        """Return once all steps so far are done and sound: before they are saved."""
        if self._pending:
            PROGRESS.at("the devices", self._pending[-1][0] - 1)
        while self._pending:
            self._check(*self._pending.popleft())

    def _check(self, step: int, values: Values) -> None:
        if values["sound"]:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        fault = (
            f"step {step}: loss {float(values['loss']):g}, gradient norm "
            f"{float(values['grad_norm']):g}. Its examples: {few(self._indices(step - 1), 16)}."
        )
        if self._settings.on_nan == "skip" and self._in_a_row <= self._settings.max_skips:
            self._say(f"left out, {self._in_a_row} in a row: {fault}")
            return
        spike = f" (--spike {self._settings.spike:g})" if self._settings.spike else ""
        raise UnsoundError(
            f"{fault} This is no step to go on from{spike}, and no checkpoint has it. Look at these "
            "examples (a label that is no class makes NaN), lower --learning-rate, or give --on-nan skip, which leaves up to "
            f"--max-skips {self._settings.max_skips} such updates in a row out"
        )


class Pace:
    """A brake: call it with a result of each step that is dispatched: it waits for the one AHEAD before.

    The devices always have work queued, and the host never queues without end: XLA's CPU devices
    block at 32 calls in flight, and where they must meet in a collective they then wait for ever.
    """

    def __init__(self) -> None:
        self._pending: deque[Any] = deque()

    def __call__(self, result: Any) -> None:
        self._pending.append(result)
        if len(self._pending) > AHEAD:
            jax.block_until_ready(self._pending.popleft())
