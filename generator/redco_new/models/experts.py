"""What the families of decoders with experts share: quirks."""

from __future__ import annotations

from dataclasses import dataclass

from redco_new.models.decoders import DecoderQuirks
from redco_new.render.values import Name


@dataclass(frozen=True)
class ExpertsQuirks(DecoderQuirks):
    """What the template `experts` depends on besides sizes.

    normalize_shares: whether the shares of the experts of a token add up to 1.
    block: what checkpoints call the experts and their router.
    gate, up, down: what checkpoints call the kernels of an expert.
    """

    normalize_shares: bool = True
    block: Name = "mlp"
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"

    @property
    def chosen(self) -> str:
        """The odds of the experts of a token, as a pattern that names what is used of them."""
        return "best_BSX" if self.normalize_shares else "_"

    @property
    def shares(self) -> str:
        """The shares of all experts, of their odds."""
        whole = "(odds_BSE / best_BSX.sum(axis=-1, keepdims=True))"
        return whole if self.normalize_shares else "odds_BSE"
