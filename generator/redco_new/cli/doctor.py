"""The command `redco doctor`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from redco_new.cli import options
from redco_new.errors import RedcoError


def doctor(
    folder: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="A project, or a folder in it.")
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Say what is there and what would fail: versions, devices, compilers, and a project's files and records.

    Without DIR, the project that the working folder is in, if it is in one. Exit code 1 where something
    is to be mended, each with how.

    \b
    Examples:
      redco doctor
      redco doctor my-project --json
    """
    from redco_new.doctor import examine
    from redco_new.project.state import find_root

    if folder is not None and not Path(folder).is_dir():
        raise RedcoError(folder, "no such folder", "give that of a project that redco-new made")
    try:
        root = find_root(Path(folder or "."))
    except RedcoError:
        if folder is not None:
            raise
        root = None
    findings = []
    for finding in examine(root):
        findings.append(finding)
        if not as_json:
            mark = "!" if finding.todo else " "
            todo = f"; {finding.todo}" if finding.todo else ""
            print(f"{mark} {finding.what}: {finding.says}{todo}", flush=True)
    wrong = sum(bool(finding.todo) for finding in findings)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    elif wrong:
        print(f"{wrong} to be mended: the lines with !")
    else:
        print("Nothing is wrong.")
    return int(bool(wrong))
