"""Why a trial lost to the best: it does not fit, or is slower, and what takes the time."""

from __future__ import annotations

from dataclasses import replace

from redco_fit.search.candidates import Trial

COMPUTING = ("products", "attention", "memory", "exposed")  # parts that add up to a step


def with_reason(trial: Trial, best: Trial | None, limit: int) -> Trial:
    """Return a trial with why it lost."""
    if trial.reason:
        return trial
    if trial.peak > limit:
        alone = "state and gradients alone are " if trial.state > limit else ""
        what = f"does not fit: {alone}{trial.peak / 1e9:.1f} of {limit / 1e9:.1f} GB"
        return replace(trial, reason=what)
    assert best is not None, "a trial that fits is the best, or slower than it"
    return replace(trial, reason=slower_by(trial, best))


def slower_by(trial: Trial, best: Trial) -> str:
    """Return by how much a trial is slower for an example, and what takes the time."""
    times = f"{'' if trial.peak else 'at least '}{trial.pace / best.pace:.2f}x"
    if trial.pace < best.pace:
        return f"not surely faster: {times}, and estimates are off by as much"

    def more(name: str) -> float:
        return trial.parts[name] / trial.batch - best.parts.get(name, 0.0) / best.batch

    worst = max(COMPUTING, key=more)
    if worst == "exposed":
        links = [name for name in trial.parts if name not in COMPUTING]
        worst = f"waiting for {max(links, key=more)}" if links else "waiting"
    return f"slower: {times}, most of it {worst}"
