"""What the families of decoders with experts share: quirks."""

from __future__ import annotations

from dataclasses import dataclass

from redco_new.models.decoders import DecoderQuirks


@dataclass(frozen=True)
class ExpertsQuirks(DecoderQuirks):
    """What the template `experts` depends on besides sizes.

    normalize_shares: whether the shares of the experts of a token add up to 1.
    block: what checkpoints call the experts and their router.
    gate, up, down: what checkpoints call the kernels of an expert.
    """

    normalize_shares: bool = True
    block: str = "mlp"
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
