"""Examples that a model may not give away: how batches draw them, and what all steps so far cost, as epsilon.

A checkpoint has the history: the stretches of steps with one noise, clip and rate. Epsilon is composed over it
by the RDP accountant of dp-accounting, for Poisson sampling, which is how batches draw.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

import numpy as np

from ..base.examples import Example
from ..base.messages import UserError, print_once
from .example_random import example_random

HISTORY = "privacy"  # in the position that a checkpoint has
SAMPLING = "poisson"
MOST_NOISE = 1e4  # in units of `clip`, that is looked for
# noise, clip, rate, steps, and the target that its noise was worked out for
Stretch = dict[str, float]


class PrivacySettings(Protocol):
    """What the section `data` has."""

    @property
    def expected_rows(self) -> int: ...
    @property
    def clip(self) -> float: ...
    @property
    def noise(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...


class PrivateRows(Sequence[Example]):
    """Examples of which a batch draws every one by itself (Poisson); the last is the filler, which fills it up.

    A row has its share of the noise beside its arrays: "scale", "clip" and "deviation", of batches of
    `batch_size` rows: the gradient is (sum of clipped ones + noise) / expected_rows.
    Raises UserError for what cannot be drawn or accounted for.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, np.ndarray]], data: PrivacySettings, train: Any
    ) -> None:
        size = len(rows)
        if not data.expected_rows <= min(size, train.batch_size):
            raise UserError(
                f"--expected-rows: {data.expected_rows} of a batch on average, and there are {size} examples, in batches "
                f"of --batch-size {train.batch_size}: give at most the fewer, and room above it"
            )
        if not 0 < data.delta < 1 / size:
            raise UserError(
                f"--delta: {data.delta} is not above 0 and below 1 / {size}, one over the number of examples"
            )
        self.rows, self.rate = rows, data.expected_rows / size
        self._data, self._train = data, train
        self._digest = _digest(rows)
        self._before: list[Stretch] = []
        self._start = 0
        self._noise: float | None = None

    def __len__(self) -> int:
        return len(self.rows) + 1

    def __getitem__(self, index: Any) -> Any:
        """Return an example; a list of them of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        size, data = self._train.batch_size, self._data
        scale = size / data.expected_rows
        numbers = {"scale": scale, "clip": data.clip}
        numbers["deviation"] = scale * self.noise * data.clip / size**0.5
        floats = {name: np.float32(x) for name, x in numbers.items()}
        if index < len(self.rows):
            return {**self.rows[index], **floats}
        nothing = {name: np.zeros_like(x) for name, x in self.rows[0].items()}
        return nothing | floats | {"scale": np.float32(0)}

    def order(self, seed: int, start: int, stop: int) -> np.ndarray:
        """Return the indices of the examples of a batch: those that are drawn, then the filler."""
        words = example_random(seed, start).bit_generator.random_raw(len(self.rows))
        chosen = np.flatnonzero(words / 2**64 < self.rate)
        if len(chosen) > stop - start:
            raise UserError(
                f"--batch-size: {len(chosen)} examples were drawn: give twice --expected-rows"
            )
        return np.pad(chosen, (0, stop - start - len(chosen)), constant_values=len(self.rows))

    @property
    def noise(self) -> float:
        """The deviation of the noise, in units of `clip`: as it is set, or so that all steps end at `epsilon`."""
        if self._noise is None:
            self._noise = self._data.noise if self._data.epsilon == 0 else self._worked_out()
        return self._noise

    def resume(self, start: int, position: Mapping[str, Any] | None) -> None:
        """Start after the steps that a position has the history of. Raises UserError where it is another's, or has none."""
        history = (position or {}).get(HISTORY, {})
        if start and not history:
            raise UserError(
                "--workdir: its checkpoint has no history of privacy, so that its epsilon is unknown: "
                "choose another --workdir"
            )
        if start and history["data"] != self._digest:
            raise UserError(
                "--workdir: the examples are others than those of its steps: bring these back, or choose "
                "another --workdir, where --init goes on with the epsilon that was spent"
            )
        if history.get("sampling", SAMPLING) != SAMPLING:
            raise UserError(f"--workdir: its batches were drawn otherwise: {history['sampling']}")
        if not start and position is not None and not history:
            print_once(
                "privacy: --init has no history of it: what it was trained on counts as public"
            )
        self._before, self._start, self._noise = history.get("stretches", []), start, None
        worked_out = self.noise
        if self._before:
            print_once(
                f"privacy: epsilon {self._spent(self._before):.4g} is spent already, by the steps before"
            )
        if self._data.epsilon:
            print_once(
                f"privacy: noise {worked_out:.4g} so that epsilon is {self._data.epsilon:g} in the end"
            )

    def history(self, step: int) -> dict[str, Any]:
        """Return what a checkpoint of a step has, for `resume`."""
        return {
            HISTORY: {
                "data": self._digest,
                "sampling": SAMPLING,
                "delta": self._data.delta,
                "stretches": self._stretches(step),
            }
        }

    def epsilon(self) -> float:
        """Return the epsilon of all steps together, up to the last of this run and with those before it."""
        return self._spent(self._stretches(self._train.steps))

    def _stretches(self, step: int, noise: float | None = None) -> list[Stretch]:
        count = step - self._start
        now = {
            "noise": self.noise if noise is None else noise,
            "clip": self._data.clip,
            "rate": self.rate,
            **self._target,
        }
        *others, last = self._before or [{}]
        if count <= 0:
            return self._before
        if {name: x for name, x in last.items() if name != "steps"} == now:
            return [*others, now | {"steps": last["steps"] + count}]
        return [*self._before, now | {"steps": count}]

    @property
    def _target(self) -> Stretch:
        if not self._data.epsilon:
            return {}
        return {
            "epsilon": self._data.epsilon,
            "delta": self._data.delta,
            "until": self._train.steps,
        }

    def _spent(self, stretches: Sequence[Stretch]) -> float:
        names = ("noise", "rate", "steps")
        return _epsilon(
            tuple(tuple(x[name] for name in names) for x in stretches), self._data.delta
        )

    def _worked_out(self) -> float:
        """Return the least noise with which the steps that are left end at the epsilon asked for."""
        target, last = self._data.epsilon, (self._before or [{}])[-1]
        own = {"clip": self._data.clip, "rate": self.rate, **self._target}
        if self._start and all(last.get(name) == x for name, x in own.items()):
            return last["noise"]  # a run that goes on
        low, high = 0.0, MOST_NOISE
        if self._spent(self._stretches(self._train.steps, high)) > target:
            spent = self._spent(self._before)
            raise UserError(
                f"--epsilon: {target:g} in the end is not to be had: {spent:.4g} is spent already; give more"
            )
        while high - low > 1e-6 * high:
            middle = (low + high) / 2 if low else high / 2
            enough = self._spent(self._stretches(self._train.steps, middle)) <= target
            low, high = (low, middle) if enough else (middle, high)
        return high


@cache
def _epsilon(stretches: tuple[tuple[float, ...], ...], delta: float) -> float:
    """Return the epsilon of stretches of (noise, rate, steps), one after the other."""
    try:
        import dp_accounting
    except ImportError:
        raise UserError("epsilon needs dp-accounting: pip install dp-accounting") from None
    accountant = dp_accounting.rdp.RdpAccountant()
    for noise, rate, steps in stretches:
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        with _quiet():
            accountant.compose(step, int(steps))
    return float(accountant.get_epsilon(delta))


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out a warning of each order whose series did not converge: without it epsilon is larger, by 0.1 % or so."""
    log = logging.getLogger("absl")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _digest(rows: Sequence[Mapping[str, np.ndarray]]) -> str:
    content = hashlib.sha256()
    for row in rows:
        for name, x in sorted(row.items()):
            content.update(name.encode() + np.asarray(x).tobytes())
    return content.hexdigest()
