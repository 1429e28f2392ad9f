"""The command `redco report`: how a run went."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from redco_new.errors import RedcoError


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The work folder of the run.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="To write to; by default, RUN.")
    ] = None,
) -> None:
    """Say how a run went: its goodput, what took the rest of the time, and the curve of its loss.

    Goodput is the share of the time since the first start that went into steps which the run has. The
    work folder is read, of a run that goes on too; no accelerator is touched. Prints it, and writes
    report.html, one page for any browser that loads nothing else, and report.png, where matplotlib is.

    \b
    Examples:
      redco report runs/a
    """
    for where, folder in (("RUN", run), ("--out", out)):
        if ":/" in str(folder):
            todo = "give one: a copy, or where that bucket is mounted"
            raise RedcoError(where, f"{folder} is no folder of this machine", todo)
    from redco_new.render.execute import use_runtime
    from redco_new.report import curve
    from redco_new.report.run import print_page, print_text, read_report

    use_runtime()
    # Which goes on where nobody reads, as after `| head`.
    from redco_runtime.base.output import show

    result = read_report(run)
    show(print_text(result))
    page, picture = ((out or run) / f"report.{kind}" for kind in ("html", "png"))
    try:
        page.write_text(print_page(result), encoding="utf-8")
        show(f"\n{page}")
        if find_spec("matplotlib"):
            curve.draw_png(result.training, result.held_out, picture)
        show(str(picture) if find_spec("matplotlib") else "no report.png: pip install matplotlib")
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise RedcoError(str(error.filename), what, "choose another --out") from error
