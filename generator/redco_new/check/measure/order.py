"""Which examples a run learns from, in which order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from redco_new.check.measure.child import Project


def batches(project: Project, sharding: Any) -> Iterator[dict[str, Any]]:
    """Yield the batches of a run, as its training would have them, of examples that are made anew."""
    examples = project.modules["pipeline"].examples(project.config)[0]
    make = project.runtime("data.batches").TrainBatches
    yield from make(
        examples, project.modules["pipeline"], project.config.train, start=0, sharding=sharding
    )


def digest(batch: dict[str, Any]) -> str:
    """Return what tells a batch from another: its names, shapes and numbers."""
    said = hashlib.sha256()
    for name in sorted(batch):
        array = np.asarray(batch[name])
        said.update(f"{name} {array.dtype} {array.shape}".encode())
        said.update(np.ascontiguousarray(array).tobytes())
    return said.hexdigest()[:16]


def measure_order(project: Project, sharding: Any) -> None:
    """Tell the digests of the batches of a run, made twice; those of the first, and whether both agree."""
    if project.plays:
        return
    with project.measuring("seeded", "making batches twice"):
        first, second = ([*map(digest, batches(project, sharding))] for _ in range(2))
        project.tell(fact="order", value=first)
        tell_difference(project, first, second, "made again")


def tell_difference(project: Project, first: list[str], second: list[str], how: str) -> None:
    """Tell the first batch that is not the same."""
    for step, (one, other) in enumerate(zip(first, second, strict=True), 1):
        if one != other:
            what = f"the batch of step {step} is another when it is {how}"
            project.fault("seeded", f"{project.package}/pipeline.py", what)
            return
