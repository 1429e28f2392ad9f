"""From the records of the runs to the table of medians and ratios."""

from __future__ import annotations

import statistics

MIB = 2**20
# title, key of the record, its size in the unit of the title, the goal for ours / Redco
ROWS = (
    ("step, s", "step_seconds", 1, 1.0),
    ("step, least, s", "step_seconds_least", 1, 1.0),
    ("step, CPU s", "step_cpu_seconds", 1, 1.0),  # of a machine that does other work too
    ("step, least, CPU s", "step_cpu_seconds_least", 1, 1.0),
    ("compile, s", "compile_seconds", 1, 0.5),
    ("compile, CPU s", "compile_cpu_seconds", 1, 0.5),
    ("  trace", "trace_seconds", 1, None),
    ("  lower", "lower_seconds", 1, None),
    ("  XLA", "xla_seconds", 1, None),
    ("  compiles", "compiles", 1, None),
    ("first two calls, s", "first_calls_seconds", 1, None),
    ("set-up before step 1, s", "setup_seconds", 1, None),
    ("peak memory, MiB", "peak_bytes", MIB, 0.6),
    ("  during set-up", "peak_bytes_setup", MIB, None),
    ("  during compiles", "peak_bytes_compile", MIB, None),
    ("  during timed steps", "peak_bytes_steps", MIB, None),
    ("state a device, MiB", "device_state_bytes", MIB, None),
    ("temporaries a device, MiB", "device_temporary_bytes", MIB, None),
    ("all-reduces a step", "all_reduce_ops", 1, None),
    ("  bytes / (4 B S D)", "all_reduce_units", 1, None),
    ("all-gathers a step", "all_gather_ops", 1, None),
    ("  bytes / (4 B S D)", "all_gather_units", 1, None),
)


def line(record: dict) -> str:
    """One run in one line."""
    return (
        f"{record['side']:6} {record['step_seconds']:.3f} s a step, "
        f"{record['step_seconds_least']:.3f} at least, {record['step_cpu_seconds']:.3f} of CPUs, "
        f"{record['compile_seconds']:.1f} s to compile, {record['peak_bytes'] / MIB:.0f} MiB, "
        f"loss {record['loss_first']:.3f} to {record['loss_last']:.3f}"
    )


def table(records: list[dict]) -> str:
    """Medians of each side over its records, ours / Redco where both sides ran, and the largest of a round.

    The records of a side are in the order of the rounds. Raises ValueError if the sides did not train the same number of parameters on the same jax.
    """
    for key in ("parameters", "jax"):
        if len({record[key] for record in records}) > 1:
            raise ValueError(f"the sides differ in {key}: {[record[key] for record in records]}")
    head = f"{'median':28}{'redco':>12}{'ours':>12}{'ours/redco':>12}{'worst':>8}{'goal':>8}"
    return "\n".join([head, *(_row(records, *row) for row in ROWS)])


def _row(records: list[dict], title: str, key: str, unit: int, goal: float | None) -> str:
    redco, ours = (_values(records, side, key, unit) for side in ("redco", "ours"))
    ratios = [b / a for a, b in zip(redco, ours, strict=True) if a] if ours else []
    median = [statistics.median(values) if values else None for values in (redco, ours)]
    ratio = median[1] / median[0] if ratios else None
    cells = f"{_text(median[0]):>12}{_text(median[1]):>12}{_text(ratio):>12}"
    return f"{title:28}{cells}{_text(max(ratios, default=None)):>8}{_text(goal):>8}"


def _values(records: list[dict], side: str, key: str, unit: int) -> list[float]:
    return [record[key] / unit for record in records if record["side"] == side]


def _text(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}" if number < 100 else f"{number:,.0f}"
