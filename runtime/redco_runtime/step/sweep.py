"""Which adapters a run trains at once: a section of config.py."""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

from ..base.messages import UserError

# To these a dim that is filled up with zeros is a dim of what is computed: means over it, products of its rows.
OF_WHOLE_MATRICES = ("adafactor", "muon")


@dataclass(frozen=True)
class Sweep:
    """The adapters of a run: one for each combination of these. Raises UserError."""

    learning_rates: tuple[float, ...] = ()  # at the peak; none: that of the optimizer
    seeds: tuple[int, ...] = ()  # of what an adapter starts as, and drops; none: that of `train`
    ranks: tuple[int, ...] = ()  # the largest is lora_rank; none: lora_rank
    adapters_at_once: int = 1  # computed side by side, with the activations of each in memory

    def __post_init__(self) -> None:
        least = {
            "learning_rates": (0.0, "of 0 or more"),
            "seeds": (0, "of 0 or more"),
            "ranks": (1, "above 0"),
        }
        for name, (smallest, words) in least.items():
            for value in getattr(self, name):
                if not smallest <= value < math.inf:
                    flag = name.replace("_", "-")
                    raise UserError(f"--{flag}: {value}: give numbers {words}")
        if self.adapters_at_once < 1:
            what = f"{self.adapters_at_once}: give a number above 0"
            raise UserError(f"--adapters-at-once: {what}")


@dataclass(frozen=True)
class Row:
    """What an adapter is trained with. scale: what its products are times, of what they are at the largest rank."""

    number: int
    learning_rate: float
    seed: int
    rank: int
    scale: float

    def __str__(self) -> str:
        return f"learning rate {self.learning_rate:g}, seed {self.seed}, rank {self.rank}"


def rows_of(config: Any) -> list[Row]:
    """Return the adapters of a configuration, by their numbers. Raises UserError."""
    sweep, lora = config.sweep, config.lora
    rates = sweep.learning_rates or (config.optimizer.learning_rate,)
    seeds, ranks = sweep.seeds or (config.train.seed,), sweep.ranks or (lora.lora_rank,)
    if max(ranks) != lora.lora_rank:
        what = f"{lora.lora_rank}, and the largest of --ranks is {max(ranks)}"
        raise UserError(f"--lora-rank: {what}: give --lora-rank {max(ranks)}")
    if min(ranks) < max(ranks) and config.optimizer.algorithm in OF_WHOLE_MATRICES:
        what = f"{config.optimizer.algorithm} sees the zeros that fill up the smaller of --ranks"
        raise UserError(f"--algorithm: {what}: choose another, or give one rank")
    scales = {rank: replace(lora, lora_rank=rank).scale / lora.scale for rank in ranks}
    every = itertools.product(rates, seeds, ranks)
    rows = [Row(number, *one, scales[one[2]]) for number, one in enumerate(every)]
    if len(rows) % sweep.adapters_at_once:
        what = (
            f"{sweep.adapters_at_once}, which does not divide the {len(rows)} adapters of the sweep"
        )
        raise UserError(f"--adapters-at-once: {what}: give a number that does")
    return rows
