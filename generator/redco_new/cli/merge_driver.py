"""The command `redco merge-driver`, which git runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from redco_new.errors import RedcoError


def merge_driver(
    base: Annotated[Path, typer.Argument(metavar="%O", help="What both sides began with.")],
    ours: Annotated[Path, typer.Argument(metavar="%A", help="Ours; the result goes there.")],
    theirs: Annotated[Path, typer.Argument(metavar="%B", help="Theirs.")],
    path: Annotated[str, typer.Argument(metavar="%P", help="The file's path in the repository.")],
) -> int:
    """Merge a file for git: Python by its symbols, Markdown, TOML, YAML and shell by their parts.

    What git merges, and both sides' definitions stand, is the merge; where git has a conflict, what does not
    depend on the order of the two edits. The rest stays a conflict, with git's markers, and exit code 1.

    \b
    To use it in a repository:
      git config merge.redco.driver "redco merge-driver %O %A %B %P"
      echo "*.py merge=redco" >> .gitattributes
    """
    from redco_merge.driver import merge_files

    try:
        merged = merge_files(base, ours, theirs, path, lambda line: print(line, file=sys.stderr))
    except OSError as error:
        where, what = str(error.filename or path), f"cannot be merged: {error.strerror}"
        raise RedcoError(where, what, "merge it by hand") from error
    return 0 if merged else 1
