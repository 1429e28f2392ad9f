"""The meshes that so many devices can be laid out in."""

from __future__ import annotations

from collections.abc import Iterator

from redco_new.fit.target import Target

# Devices of a TPU's slice that split a layer at most: one or two sides of it, as in MaxText's configurations.
MOST_TPU = 16


def meshes_of(target: Target, experts: int = 1) -> Iterator[dict[str, int]]:
    """Yield data x fsdp x expert x model of all devices, those that split a layer least first.

    experts: of a layer; the axis `expert` divides them. `model` stays within a host of GPUs: between hosts, what
    each layer sends takes longer than its products.
    """
    count = target.devices
    most = MOST_TPU if target.hardware.platform == "tpu" else target.per_host
    for model in divisors(count):
        for expert in divisors(count // model):
            if model > most or experts % expert:
                continue
            rest = count // model // expert
            for data in divisors(rest):
                yield {"data": data, "fsdp": rest // data, "expert": expert, "model": model}


def divisors(count: int) -> list[int]:
    """Return the numbers that divide `count`, rising."""
    small = [n for n in range(1, int(count**0.5) + 1) if count % n == 0]
    return sorted({*small, *(count // n for n in small)})
