"""A reading in words and figures, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator

from redco_new.inspect.units import mesh_text, size_text

from redco_fit.hardware import Hardware
from redco_fit.reading import Reading
from redco_fit.target import parse_target

BAR = 60  # characters of a device's memory
LETTERS = {
    "parameters": "P",
    "optimizer": "O",
    "variables": "V",
    "batch": "B",
    "gradients": "G",
    "activations": "A",
}


def lines_of(title: str, reading: Reading) -> Iterator[str]:
    """Yield what there is to say of a step, first whether it fits."""
    hardware = parse_target(reading.compiled_for).hardware
    length = f" of {reading.length} tokens" if reading.length else ""
    yield (
        f"{title} on {reading.devices} x {hardware.kind} ({reading.target}), "
        f"mesh {mesh_text(dict(reading.mesh))}, batch {reading.batch}{length}"
    )
    yield ""
    yield verdict(reading)
    yield from memory_lines(reading)
    yield ""
    if reading.refused:
        yield f"the compiler: {reading.refused}"
    else:
        yield from time_lines(reading, hardware)
    yield f"compiled in {reading.compile_seconds:.0f} s; remat of the layers: {saved_text(reading)}"
    for note in reading.notes:
        yield f"note: {note}"


def verdict(reading: Reading) -> str:
    """Return whether the step fits, and with how much to spare, in a line."""
    if not reading.peak_bytes:
        return "does not fit: the compiler refuses it"
    left = reading.limit_bytes - reading.peak_bytes
    need = f"{size_text(reading.peak_bytes)} of {size_text(reading.limit_bytes)} on each device"
    if reading.fits:
        return f"fits: {need}, {size_text(left)} free"
    return f"does not fit: {need}, {size_text(-left)} too much"


def memory_lines(reading: Reading) -> Iterator[str]:
    """Yield the memory of a device by kind, as a bar and in figures, and what limits it."""
    kinds = {kind: size for kind, size in reading.memory.items() if size >= 10**5}
    whole = max(reading.limit_bytes, sum(kinds.values()), 1)
    bar = "".join(LETTERS.get(kind, "?") * round(BAR * n / whole) for kind, n in kinds.items())
    yield f"  [{bar:<{round(BAR * reading.limit_bytes / whole)}}]"
    for kind, size in kinds.items():
        yield f"  {LETTERS.get(kind, '?')} {kind:<12}{size_text(size):>10}"
    if reading.host_bytes:
        yield f"    in the host's memory {size_text(reading.host_bytes)}"
    if reading.remat_bytes is not None:
        left = reading.remat_bytes - reading.temporary_bytes
        where = f"{size_text(left)} away" if left > 0 else f"passed by {size_text(-left)}"
        yield f"  XLA computes arrays again by itself where temporaries exceed {size_text(reading.remat_bytes)}: {where}"


def time_lines(reading: Reading, hardware: Hardware) -> Iterator[str]:
    """Yield the estimate of a step's time, and what it is made of."""
    parts = dict(reading.seconds)
    exposed = parts.pop("exposed", 0.0)
    axes = [
        f"collectives over {axis} {milliseconds(s)} ({link_name(reading, hardware)})"
        for axis, s in parts.items()
        if axis not in ("products", "memory")
    ]
    yield (
        f"a step, estimated: {milliseconds(reading.step_seconds)}; model FLOPs utilization {utilization(reading, hardware):.0%}"
    )
    if reading.coded_flops:
        yield f"  of the products' FLOPs, {reading.coded_flops / reading.flops:.0%} are in 8 bits"
    yield (
        f"  at least, by the data sheet: products {milliseconds(parts['products'])}, other kernels {milliseconds(parts['memory'])}"
        + "".join(f", {text}" for text in axes)
        + f"; {milliseconds(exposed)} of the collectives have nothing computed beside them"
    )


def utilization(reading: Reading, hardware: Hardware) -> float:
    """Return the share of the device's bfloat16 peak that the estimate has the model's FLOPs at."""
    return reading.model_flops / hardware.flops["bfloat16"] / max(reading.step_seconds, 1e-12)


def link_name(reading: Reading, hardware: Hardware) -> str:
    """Return what devices are joined by."""
    if hardware.platform == "tpu":
        return "ICI"
    near = "NVLink" if hardware.link > 10**11 else "PCIe"
    return near if parse_target(reading.compiled_for).hosts == 1 else f"{near} and the network"


def saved_text(reading: Reading) -> str:
    """Return what the layers save for the backward pass, as the runtime says it."""
    return reading.remat.removeprefix("remat: ") or "none"


def milliseconds(seconds: float) -> str:
    """Return seconds as people read them."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"
