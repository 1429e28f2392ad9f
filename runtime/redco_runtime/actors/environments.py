"""Environments of gymnasium, played for a number of actions."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..base.messages import UserError, announce
from .playing import Row

# Observations, one of each environment -> its actions, as the environment takes them.
Act = Callable[[list[np.ndarray]], Sequence[Any]]


def open_environment(name: str) -> Any:
    """Return an environment by its name in gymnasium. Raises UserError where it is not installed."""
    try:
        import gymnasium  # late: a project is looked at without it
    except ImportError:
        raise UserError("--environment: they need gymnasium: pip install gymnasium") from None
    try:
        return gymnasium.make(name, disable_env_checker=True)
    except (gymnasium.error.Error, ImportError) as error:
        what = " ".join(str(error).split())
        raise UserError(f"--environment: {name} cannot be made: {what}") from None


def check_environment(name: str, inputs: int, outputs: int, choices: bool) -> None:
    """Raise UserError where an environment is not as the model is.

    inputs: numbers of an observation. outputs: of an action, or with `choices` those that there are.
    """
    environment = open_environment(name)
    seen, action = environment.observation_space, environment.action_space
    environment.close()
    size = int(action.n) if hasattr(action, "n") else action.shape
    if (seen.shape, size) != ((inputs,), outputs if choices else (outputs,)):
        kind = "choices" if choices else "numbers"
        raise UserError(
            f"--environment: {name} has observations of the shape {seen.shape} and actions {action}, and the model "
            f"takes {inputs} numbers and gives {outputs} {kind}: give other --inputs and --outputs, or another one"
        )


@cache
def action_limits(name: str, largest: float = 0.0) -> np.ndarray:
    """Return the lowest and the highest number of each dim of an environment's actions: (2, dims), float32.

    largest: in either direction, in the place of what the environment says; 0 for that.
    Raises UserError where there are none.
    """
    environment = open_environment(name)
    space = environment.action_space
    environment.close()
    own = np.stack([space.low, space.high]).astype(np.float32)
    if not largest:
        if not (np.isfinite(own).all() and (own[0] < own[1]).all()):
            raise UserError(
                f"--environment: {name} has actions {space}, whose numbers have no limits: give --action-limit"
            )
        return own
    limits = np.float32(largest) * np.array([-1, 1], np.float32)[:, None] * np.ones_like(own)
    if (limits[0] < own[0]).any() or (limits[1] > own[1]).any():
        announce(f"note: --action-limit {largest:g}: {name} takes actions {space}, and no others")
    return limits


def play_environments(name: str, seeds: Sequence[int], count: int, act: Act) -> list[Row]:
    """Return what came of `count` actions in each of some environments, one of each seed: arrays (count, ...).

    observation, action, reward, next_observation; terminated: whether the task ended there, after which there
    is no reward; done: whether the episode did, by that or by its limit of time. Another one begins then.
    Raises UserError for no actions.
    """
    if count < 1:
        raise UserError(f"--round-length: {count} actions: give a number above 0")
    environments = [open_environment(name) for _ in seeds]
    pairs = zip(environments, seeds, strict=True)
    states = [environment.reset(seed=seed)[0] for environment, seed in pairs]
    rows = [defaultdict[str, list[Any]](list) for _ in seeds]
    for _ in range(count):
        actions = act(states)
        for i, (environment, row) in enumerate(zip(environments, rows, strict=True)):
            state, reward, terminated, truncated, _ = environment.step(actions[i])
            row["observation"].append(states[i])
            row["action"].append(actions[i])
            row["reward"].append(np.float32(reward))
            row["next_observation"].append(state)
            row["terminated"].append(np.float32(terminated))
            row["done"].append(np.float32(terminated or truncated))
            states[i] = environment.reset()[0] if terminated or truncated else state
    for environment in environments:
        environment.close()
    return [{key: np.stack(values) for key, values in row.items()} for row in rows]


def first_returns(reward_BT: np.ndarray, done_BT: np.ndarray) -> np.ndarray:
    """Return the sum of rewards of the first episode of each row, as far as it was played: (B,)."""
    before_BT = np.cumsum(done_BT, axis=1) - done_BT
    return (reward_BT * (before_BT == 0)).sum(axis=1)
