"""The command `redco report`: how a run went."""

from argparse import ArgumentTypeError
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from redco_new.errors import RedcoError


def report(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="The work folder of the run; it may be in a bucket."),
    ],
    out: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="To write to; by default, RUN.")
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
    from redco_new.render.execute import use_runtime
    from redco_new.report import curve
    from redco_new.report.run import print_page, print_text, read_report

    use_runtime()
    # Which goes on where nobody reads, as after `| head`.
    from redco_runtime.base.messages import show
    from redco_runtime.base.files import written_here

    folder, to = _folder("RUN", run), _folder("--out", out or run)
    result = read_report(folder)
    show(print_text(result))
    page, picture = (to / f"report.{kind}" for kind in ("html", "png"))
    try:
        page.write_text(print_page(result), encoding="utf-8")
        show(f"\n{page}")
        if find_spec("matplotlib"):
            with written_here(picture) as path:
                curve.draw_png(result.training, result.held_out, path)
        show(str(picture) if find_spec("matplotlib") else "no report.png: pip install matplotlib")
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise RedcoError(str(error.filename), what, "choose another --out") from error


def _folder(where: str, text: str) -> Any:
    """Return the path of a folder, which may be in a bucket. Raises RedcoError."""
    from redco_runtime.base.files import work_folder

    try:
        return work_folder(text)
    except ArgumentTypeError as error:
        what, _, todo = str(error).partition(": ")
        raise RedcoError(where, what, todo) from None
