"""The command `redco check`: one verdict on an edit."""

from pathlib import Path
from typing import Annotated

import typer

from redco_new.cli import options
from redco_new.cli.progress import status
from redco_new.errors import RedcoError

Accept = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Changes that are meant, such as loss or loss,specs."),
]


def check(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="The project, or a folder in it.")
    ] = ".",
    accept: Accept = None,
    as_json: options.AsJson = False,
) -> int:
    """Say in a minute whether an edit broke a project: its shards, its resume, its masks, its tests; and what it changed.

    The preset tiny is trained for four steps on virtual devices of the CPU, resumed, and compared with one
    device. What no check can know to be wrong (the loss, the order of batches, specs, a checkpoint, what
    is sent) is compared with .redco/check.json, which the first check writes: commit it. A change is exit
    code 1 until --accept names it. What is always wrong cannot be accepted.

    \b
    Examples:
      redco check
      redco check --json
      redco check --accept loss

    Exit codes: 0 as it was; 1 something is wrong, or changed; 2 bad input.
    """
    from redco_new.check.report import print_verdict
    from redco_new.check.run import check_project
    from redco_new.project.state import find_root

    if not Path(folder).is_dir():
        raise RedcoError(folder, "no such folder", "give that of a project that redco-new made")
    names = [name.strip() for name in accept.split(",")] if accept is not None else []
    with status() as progress:
        verdict = check_project(find_root(Path(folder)), names, progress)
    return print_verdict(verdict, as_json=as_json)
