"""Deep deterministic policy gradients: an actor and a critic, their targets, and all that the actor played."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.branches import Branch
from redco_new.models.recipes.defaults import Setting, scored
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words

LENGTH = 32  # moments of a row, as in the recipe's config
STEADY = {
    "learning_rate": 1e-3,
    "learning_rate_decay": "constant",
    "warmup_steps": 0,
    "weight_decay": 0.0,
}


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    numbers = dict.fromkeys(("reward", "terminated"), np.zeros(LENGTH, np.float32))
    widths = {"observation": "inputs", "next_observation": "inputs", "action": "outputs"}
    limits = {"limits": np.zeros((LENGTH, 2, sizes["outputs"]), np.float32)}
    return (
        numbers
        | limits
        | {name: np.zeros((LENGTH, sizes[width]), np.float32) for name, width in widths.items()}
    )


RECIPE = Recipe(
    name="ddpg",
    title="reinforcement learning: an actor, a critic and their targets, on all that was played (DDPG)",
    source="Pendulum of gymnasium",
    model=OwnModel("an actor and a critic", "Network"),
    figure=Figure("return", least=-250.0, baseline="random actions: -1,201"),
    needs=frozenset(),
    words=Words(
        learns="to swing a pendulum up, in `Pendulum-v1` of gymnasium",
        loss="the loss of the critic, the mean square of what it expects wrongly",
        sample="the return of a held-out episode",
        prompt="0",
        predicts="plays a held-out episode, by its number",
        data="`--environment NAME`, or change `rollout` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "model": {},
        "optimizer": STEADY,
        "critic_optimizer": STEADY,
        "train": {
            "steps": 4000,
            "batch_size": 8,
            "eval_every": 1000,
            "save_every": 1000,
            "target_rate": 0.01,
        },
    },
    train=(
        Setting("round_steps", 200, "optimizer steps after what is played in a round"),
        Setting("replay_rounds", 100, "rounds that are learned from, the last ones"),
        Setting(
            "target_rate", 0.005, "share of the way to the others that the targets go in a step"
        ),
        Setting(
            "action_limit", 0.0, "largest of an action, either way; 0: the environment's limits"
        ),
        *scored("return", examples=16),
    ),
    packages=("gymnasium>=1.0",),
    branches=(
        Branch("actor", optimizer="optimizer"),
        Branch("critic", optimizer="critic_optimizer"),
        Branch("target_actor", follows="actor"),
        Branch("target_critic", follows="critic"),
    ),
    actors=True,
    terms=True,
    order=240,
)
