"""--hardware beside --model: the mesh is what a search chooses."""

from collections.abc import Callable

from redco_new.errors import RedcoError
from redco_new.request import Request


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
    from redco_fit.search.choice import assumptions, does_not_fit, search_for, with_trial

    result = search_for(request, hardware, None, None, progress)
    best = result.best
    if best is None:
        raise RedcoError(
            f"--hardware {hardware}", does_not_fit(result), "take more devices, or a smaller --size"
        )
    note = (
        f"{best.name}, {best.peak / 1e9:.0f} GB a device with {best.settings}: chosen for {result.target.name} by an"
        f" estimate, {assumptions(result)}; `redco fit --hardware {result.target.name}` asks its compiler"
    )
    return with_trial(request, best), note
