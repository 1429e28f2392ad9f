"""Preferences by other losses than DPO's: of pairs, or of single answers; beside a reference, or by the policy alone."""

from dataclasses import replace
from typing import Any

from redco_new.models.branches import Branch
from redco_new.models.recipes.defaults import Setting, opinion_example
from redco_new.models.recipes.kinds.dpo import RECIPE as DPO
from redco_new.models.recipes.recipe import Figure, Recipe

ALONE = (Branch("policy"),)


def _by(loss: str, says: str, *train: Setting, **changes: Any) -> Recipe:
    """Return the recipe by one loss. says: how it goes, of the preset tiny. train: settings of that section."""
    words = replace(DPO.words, loss=says)
    return replace(DPO, name="preference", loss=loss, words=words, train=train, order=27, **changes)


RECIPE = _by(
    "ipo",
    "the loss, which falls from 25, that of the reference, to below 1",
    Setting("beta", 0.1, "1 / (2 beta) nats a token are what the chosen answer is to gain"),
    title="the same by --loss ipo, kto, orpo or simpo: single answers too, and without a reference",
    figure=Figure("loss", most=1.0, baseline="25: the reference"),
    losses={
        "kto": _by(
            "kto",
            "the loss, which falls from 0.5, that of the reference, to below 0.3",
            Setting("beta", 0.1, "of a reward, a nat: the higher, the nearer the policy stays"),
            Setting("desirable_weight", 1.0, "of answers that are good"),
            Setting("undesirable_weight", 1.0, "of those that are not"),
            folder="kto",
            example=opinion_example,
            whole_batch=True,
        ),
        "orpo": _by(
            "orpo",
            "the loss, which falls from about 6 to below 2",
            Setting("beta", 0.1, "of the odds, beside how likely the chosen chat is"),
            branches=ALONE,
            whole_batch=True,
        ),
        "simpo": _by(
            "simpo",
            "the loss, which falls from about 1.3 to below 0.1",
            # Meng et al. 2024; TRL has 0.1, and a margin of 0.5.
            Setting("beta", 2.0, "of a reward, a nat a token"),
            Setting("margin", 1.0, "by which the reward of the chosen answer is to be higher"),
            branches=ALONE,
        ),
    },
)
