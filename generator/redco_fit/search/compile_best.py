"""The best of a search, as its compiler has it."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from redco_fit.compilers import environment
from redco_fit.compiling import compile_step
from redco_fit.reading import SCRATCH, Job, Reading
from redco_fit.search.best import Search
from redco_fit.search.candidates import Trial
from redco_fit.search.choice import does_not_fit, with_trial
from redco_new.errors import RedcoError
from redco_plan import STAGE
from redco_new.project.create import create_project
from redco_new.project.sandbox import temporary_folder
from redco_new.request import Request

COMPILED = 3  # of the best: where the compiler refuses one, the next is compiled


def compile_best(
    request: Request, result: Search, length: int | None, progress: Callable[[str], None]
) -> tuple[Trial | None, Reading | None, str]:
    """Return the fastest that its compiler takes, what that says, and a note of what it refused.

    Without a compiler at hand it is the fastest by the estimate. Where nothing fits by that, what is near is compiled.
    """
    try:
        environment(result.target.hardware.platform)
    except RedcoError as error:
        note = f"not compiled, by the estimate alone: {error.what}: {error.todo}"
        return result.best, None, note
    estimated = ", by the estimate" if result.near else ""
    refused = [] if result.fitting else [does_not_fit(result) + estimated]
    for trial in (result.fitting or result.near)[:COMPILED]:
        try:
            reading = _compile(request, result, trial, length, progress)
        except RedcoError as error:  # such as a mesh that a TPU's torus has no sides for
            if error.where == SCRATCH:
                raise
            refused.append(f"{trial.name} cannot be compiled: {error.what}")
            continue
        if reading.fits:
            return replace(trial, reason=""), reading, "; ".join(refused)
        needs = (
            f"needs {reading.peak_bytes / 1e9:.1f} GB" if reading.peak_bytes else reading.refused
        )
        refused.append(f"{trial.name} is refused by the compiler: {needs}")
    return None, None, "; ".join(refused)


def _compile(
    request: Request,
    result: Search,
    trial: Trial,
    length: int | None,
    progress: Callable[[str], None],
) -> Reading:
    """Return what the compiler says of a trial, in a project that is made for it."""
    with temporary_folder() as folder:
        wanted = replace(with_trial(request, trial), name="searched")
        project = create_project(wanted, folder, progress=progress)
        settings = {"micro_batches": trial.micro_batches}
        settings |= {"stage_repeats": trial.repeats} if STAGE in trial.mesh else {}
        return compile_step(
            project, result.target, Job({}, trial.batch, length, settings), progress
        )


def to_dict(
    title: str,
    result: Search,
    best: Trial | None,
    reading: Reading | None,
    note: str,
) -> dict[str, Any]:
    """Return the outcome as plain data.

    model: what is trained.  hardware: as --hardware has it.
    best: the mesh that is chosen, null where none fits.
    fewest: the fewest devices of that hardware on which one fits, and its mesh; null where that is no fewer, or none.
    tried: all that were tried.  search_seconds: of the search.
    compiled: what the compiler said of the best, as without --search; null where it was not asked.
    note: what else to know.
    """
    few = result.fewest_target
    return {
        "model": title,
        "hardware": result.target.name,
        "best": best and asdict(best),
        "fewest": result.fewest and few and {"hardware": few.name, **asdict(result.fewest)},
        "tried": [asdict(one) for one in result.trials],
        "search_seconds": result.seconds,
        "compiled": reading and reading.to_dict(),
        "note": note,
    }
