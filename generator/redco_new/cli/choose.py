"""What a search for a mesh is asked by several commands, and how its outcome becomes a request."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from redco_new.errors import RedcoError
from redco_new.request import Request
from redco_new.request.mesh import check_mesh

if TYPE_CHECKING:
    from redco_new.search.best import Search
    from redco_new.search.candidates import Trial


def check_alone(
    hardware: str | None, shards: str | None, mesh: str | None, zero: int | None
) -> None:
    """Raise RedcoError if what a search chooses is given too."""
    for flag, value in {"--shards": shards, "--mesh": mesh, "--zero": zero}.items():
        if hardware is not None and value is not None:
            what = f"is chosen by --hardware {hardware}"
            raise RedcoError(flag, what, "leave one of them out")


def choose_mesh(
    request: Request, hardware: str, progress: Callable[[str], None]
) -> tuple[Request, str]:
    """Return a request with the mesh that is fastest on `hardware` by the estimate, and a note that says so.

    Raises RedcoError where nothing fits.
    """
    result = search_for(request, hardware, None, None, progress)
    best = result.best
    if best is None:
        raise RedcoError(
            f"--hardware {hardware}", does_not_fit(result), "take more devices, or a smaller --size"
        )
    settings = f"--batch-size {best.batch} --micro-batches {best.micro_batches}"
    note = (
        f"{best.name}, {best.peak / 1e9:.0f} GB a device with {settings}: chosen for {result.target.name} by an"
        f" estimate; `redco fit --hardware {result.target.name}` asks its compiler"
    )
    return with_trial(request, best), note


def search_for(
    request: Request,
    hardware: str,
    batch: int | None,
    length: int | None,
    progress: Callable[[str], None],
) -> "Search":
    """Return what a search for a request on `hardware` came to."""
    from redco_new.fit.target import parse_target
    from redco_new.render.template import open_template
    from redco_new.search.best import search

    target = parse_target(hardware)
    with open_template() as template:
        return search(request, target, template, batch, length, progress)


def with_trial(request: Request, trial: "Trial") -> Request:
    """Return a request with what a trial has."""
    return replace(
        request,
        mesh=check_mesh("--mesh", dict(trial.mesh)),
        zero=trial.zero,
        sequence_parallel=trial.sequence_parallel,
    )


def does_not_fit(result: "Search") -> str:
    """Return that nothing fits, and what comes nearest."""
    nearest, limit = result.nearest, result.target.hardware.usable
    if nearest is None:
        return "no mesh of its devices divides the batch"
    alone = ", for its state and gradients alone" if nearest.state > limit else ""
    return (
        f"nothing fits: {nearest.name} needs {nearest.peak / 1e9:.0f} of {limit / 1e9:.0f} GB"
        f" a device{alone}"
    )
