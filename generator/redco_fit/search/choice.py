"""What a search for a mesh is asked, and how its outcome becomes a request."""

from collections.abc import Callable
from dataclasses import replace

from redco_fit.search.best import Search, search
from redco_fit.search.candidates import Trial
from redco_fit.target import parse_target
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_new.request.mesh import check_mesh

# The most devices of a published step that the estimate was compared with (tests/tools/tables/published.md).
COMPARED = {"gpu": 512, "tpu": 2048}


def search_for(
    request: Request,
    hardware: str,
    batch: int | None,
    length: int | None,
    progress: Callable[[str], None],
) -> Search:
    """Return what a search for a request on `hardware` came to."""
    target = parse_target(hardware)
    with open_template() as template:
        return search(request, target, template, batch, length, progress)


def with_trial(request: Request, trial: Trial) -> Request:
    """Return a request with what a trial has."""
    return replace(
        request,
        mesh=check_mesh("--mesh", dict(trial.mesh)),
        zero=trial.zero,
        sequence_parallel=trial.sequence_parallel,
        context_attention=trial.context_attention,
    )


def does_not_fit(result: Search) -> str:
    """Return that nothing fits, and what comes nearest."""
    nearest, limit = result.nearest, result.target.hardware.usable
    if nearest is None:
        return "no mesh of its devices divides the batch"
    alone = ", for its state and gradients alone" if nearest.state > limit else ""
    return (
        f"nothing fits: {nearest.name} needs {nearest.peak / 1e9:.0f} of {limit / 1e9:.0f} GB"
        f" a device{alone}"
    )


def assumptions(result: Search) -> str:
    """Return the batch that was assumed, where none was given, and that no step of so many devices was compared; "" for neither."""
    devices, platform, said = result.target.devices, result.target.hardware.platform, []
    if result.assumed and result.best:
        tokens = result.best.batch * result.assumed / 1e6
        said.append(f"without --batch it assumes {tokens:,.1f} million tokens a step")
    if devices > COMPARED[platform]:
        most = f"{COMPARED[platform]:,} {platform.upper()}s"
        said.append(f"the estimate was compared with published steps of at most {most}")
    return "; ".join(said)
