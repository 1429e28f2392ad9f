"""What the families of decoders with experts share: quirks, and reading config.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redco_new.models.decoders import DecoderQuirks, read_decoder
from redco_new.models.family import Settings


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


def read_experts(config: Any, keys: dict[str, str], **quirks: Any) -> Settings:
    """Return the settings of a decoder whose experts have room for all tokens. Raises RedcoError."""
    settings = read_decoder(config, keys, ExpertsQuirks, **quirks)
    sizes = settings.sizes
    # So much room leaves no token out, as in the PyTorch classes. Less is faster: the user may try.
    room = sizes["num_experts"] / sizes["experts_per_token"]
    return Settings(sizes | {"capacity_factor": room}, settings.quirks, settings.sequence_length)
