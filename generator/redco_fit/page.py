"""A reading as one page of HTML that needs nothing else: memory by kind, time by part."""

from __future__ import annotations

from pathlib import Path

from redco_new.inspect import units

from redco_fit import words
from redco_fit.reading import Reading
from redco_fit.target import parse_target

Part = tuple[str, float, str]  # what it is, its share of the drawing in percent, its figure


def render_reading(title: str, reading: Reading) -> str:
    """Return the page of a reading. All text of the user's is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    first, *_ = words.lines_of(title, reading)
    hardware = parse_target(reading.compiled_for).hardware
    return environment.get_template("page.html.jinja").render(
        title=first,
        verdict=words.verdict(reading),
        reading=reading,
        memory=memory_parts(reading),
        limit=100 * reading.limit_bytes / most_bytes(reading),
        time=time_parts(reading),
        utilization=f"{words.utilization(reading, hardware):.0%}",
        estimate=words.milliseconds(reading.step_seconds),
        units=units,
    )


def most_bytes(reading: Reading) -> int:
    """Return the bytes that the drawing of the memory is wide: the device's, or what the step needs if that is more."""
    return max(reading.limit_bytes, sum(reading.memory.values()), 1)


def memory_parts(reading: Reading) -> list[Part]:
    """Return the kinds of memory of a device."""
    whole = most_bytes(reading)
    return [
        (kind, 100 * size / whole, units.size_text(size))
        for kind, size in reading.memory.items()
        if size
    ]


def time_parts(reading: Reading) -> list[Part]:
    """Return the parts of a step: of its collectives, those that nothing is computed beside."""
    names = {
        "products": "products",
        "memory": "other kernels",
        "exposed": "waiting for collectives",
    }
    parts = {name: reading.seconds.get(key, 0.0) for key, name in names.items()}
    whole = sum(parts.values()) or 1.0
    return [
        (name, 100 * seconds / whole, words.milliseconds(seconds))
        for name, seconds in parts.items()
        if seconds
    ]
