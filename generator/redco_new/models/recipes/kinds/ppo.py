"""Proximal policy optimization: an actor and a critic, and what the actor plays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.branches import Branch
from redco_new.models.recipes.defaults import Setting, scored
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words

LENGTH = 64  # moments of a row, as in the recipe's config
FALLING = {"learning_rate_decay": "linear", "warmup_steps": 0, "weight_decay": 0.0}


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    numbers = dict.fromkeys(("log_prob", "advantage", "target"), np.zeros(LENGTH, np.float32))
    observation = np.zeros((LENGTH, sizes["inputs"]), np.float32)
    return numbers | {"observation": observation, "action": np.zeros(LENGTH, np.int64)}


RECIPE = Recipe(
    name="ppo",
    title="reinforcement learning: an actor and a critic, on what it plays by then (PPO)",
    source="CartPole of gymnasium",
    model=OwnModel("an actor and a critic", "Network"),
    figure=Figure("return", least=475.0, baseline="random actions: 24"),
    needs=frozenset(),
    words=Words(
        learns="to balance a pole, in `CartPole-v1` of gymnasium",
        loss="the loss of the critic, the mean square of what it expects wrongly",
        sample="the return of a held-out episode",
        prompt="0",
        predicts="plays a held-out episode, by its number",
        data="`--environment NAME`, or change `rollout` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "model": {},
        "optimizer": {"learning_rate": 1e-3} | FALLING,
        "critic_optimizer": {"learning_rate": 2e-3} | FALLING,
        "train": {"steps": 1024, "batch_size": 8, "eval_every": 512, "save_every": 512},
    },
    train=(
        Setting("round_steps", 64, "optimizer steps on what is played in a round"),
        *scored("return", examples=16),
    ),
    packages=("gymnasium>=1.0",),
    whole_batch=True,
    branches=(
        Branch("actor", optimizer="optimizer"),
        Branch("critic", optimizer="critic_optimizer"),
    ),
    actors=True,
    terms=True,
    order=230,
)
