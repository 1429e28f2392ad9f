"""Group relative policy optimization: a policy learns from the rewards of its own answers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from redco_new.models.branches import Branch
from redco_new.models.family import CAUSAL
from redco_new.models.recipes.defaults import Setting, Rate, scored
from redco_new.models.recipes.recipe import Figure, Recipe, Words

GROUP = 8  # answers to a question, as in the recipe's config


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    numbers = dict.fromkeys(("log_prob", "reference"), np.zeros((GROUP, length), np.float32))
    ids, answered = np.zeros((GROUP, length), np.int32), np.ones((GROUP, length), bool)
    advantage = np.zeros(GROUP, np.float32)
    return numbers | {"input_ids": ids, "answered": answered, "advantage": advantage}


def _served(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    sampled = np.zeros((GROUP, length), np.float32)
    return _example(sizes, length) | {"sampled": sampled, "stale": np.float32(0)}


PLAIN = Recipe(
    name="grpo",
    title="reinforcement learning: a policy learns from rewards of its own answers (GRPO)",
    source="sums of two numbers below 5, and a function of the reward",
    model="gpt2",
    figure=Figure("reward", least=0.85, baseline="at the start: 0.00; always 4: 0.28"),
    needs=CAUSAL,
    words=Words(
        learns="to answer sums by trial: it starts from nothing, and a right answer has the reward 1",
        loss="the loss, which has no meaning of its own, and the mean reward, which rises from about 0",
        sample="the answer to a question",
        prompt='"3+4="',
        predicts="draws an answer to a question",
        data="`--data questions.jsonl`, and `reward` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "data": {"tokenizer": "bytes", "sequence_length": 8},
        "optimizer": {
            "learning_rate": 2e-3,
            "learning_rate_decay": "linear",
            "warmup_steps": 10,
            "weight_decay": 0.0,
        },
        "train": {
            "steps": 200,
            "batch_size": 16,
            "guided": True,
            "new_tokens": 2,
            "kl": 0.001,
            "log_every": 10,
            "eval_every": 100,
            "save_every": 200,
        },
    },
    train=(
        Setting("group", GROUP, "G: answers to a question, which are compared with each other"),
        Setting("new_tokens", 256, "T: of an answer, at most"),
        Setting("round_steps", 2, "optimizer steps on the answers of a round"),
        Setting(
            "kl", 0.04, "weight of the divergence from the reference; 0: the policy may go anywhere"
        ),
        Setting(
            "loss",
            "dapo",
            "its mean: loss() in pipeline.py",
            choices=("dapo", "grpo", "bnpo", "dr-grpo", "gspo"),
        ),
        Setting(
            "deviation",
            "sample",
            "of rewards: of G - 1, as TRL's, or G",
            choices=("sample", "population"),
        ),
        Setting(
            "reward_model",
            "",
            "a run of the recipe reward, or its export; none: reward() of pipeline.py",
        ),
        Setting(
            "guided",
            False,
            "the first answer to a question is the right one, and no answer of the policy",
        ),
        *scored("reward", examples=25),
    ),
    packages=("jinja2>=3.1",),
    branches=(
        Branch("policy"),
        Branch("reference", frozen=True, base=True),
        Branch("reward_model", frozen=True, scores=True),
    ),
    actors=True,
    system=True,
    rate=Rate(1e-6, "That of TRL, and of DeepSeekMath (Shao et al. 2024)"),
    adapter_rate=Rate(1e-5, "Ten times that of the whole model (Schulman et al. 2025)"),
    prompt_fields=("messages", "prompt", "instruction"),
    writes=True,
    order=28,
)

SERVED = replace(
    PLAIN,
    served=True,
    terms=True,
    example=_served,
    train=(
        *PLAIN.train,
        Setting(
            "rollouts", "", "URL of a server with vLLM's /v1/completions; none: this project draws"
        ),
        Setting(
            "rollout_folder", "", "by which it gets weights, and sees it so; none: in --workdir"
        ),
        Setting("rollout_deadline", 600.0, "seconds that it may take to answer, with all tries"),
        Setting("stale_steps", 0, "optimizer steps that its weights may be behind a round"),
        Setting("importance_cap", 2.0, "most that a token counts by how else the server drew it"),
    ),
)
RECIPE = replace(PLAIN, with_features={"rollouts": SERVED})
