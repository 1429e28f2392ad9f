"""What a transaction is about to do, on the disk before it does it."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from redco_new.errors import RedcoError
from redco_new.transaction.disk import FOLDER, sync
from redco_new.transaction.paths import STAGING, locate
from redco_new.transaction.plan import Step

SCHEMA = 1
STATE = re.compile(f"{FOLDER}|[0-9a-f]{{64}}")


def staging_folder(root: Path) -> Path:
    """Where the transaction on `root` keeps its journal, what it will write and what it replaces."""
    return root / STAGING


def journal_file(root: Path) -> Path:
    """The journal. A transaction that has none has changed nothing, or is committed."""
    return staging_folder(root) / "journal.json"


def old_copy(root: Path, number: int) -> Path:
    """Where step `number` keeps what it replaces or deletes."""
    return staging_folder(root) / f"{number}.old"


def new_copy(root: Path, number: int) -> Path:
    """Where step `number` finds what it puts in place."""
    return staging_folder(root) / f"{number}.new"


def unfinished(root: Path) -> bool:
    """Whether a transaction on `root` is under way, or was interrupted and is not yet undone."""
    return os.path.lexists(journal_file(root))


def write(root: Path, steps: list[Step]) -> None:
    """Record `steps`: from here on they may be done, and are undone unless they are committed."""
    journal = journal_file(root)
    entries = [{"place": step.place, "old": step.old, "new": step.new} for step in steps]
    draft = journal.with_suffix(".draft")
    draft.write_text(json.dumps({"schema": SCHEMA, "steps": entries}, indent=1))
    sync(draft)
    os.replace(draft, journal)
    sync(journal.parent)
    sync(journal.parent.parent)


def read(root: Path) -> list[Step]:
    """The steps of an unfinished transaction.

    Raises RedcoError unless it is a journal as `write` writes it, with places inside the project:
    the file may come from anyone.
    """
    journal = journal_file(root)
    try:
        content = json.loads(journal.read_bytes())
        if content["schema"] != SCHEMA:
            raise ValueError(f"of schema {content['schema']!r}")
        return [_step(root, **entry) for entry in content["steps"]]
    except (ValueError, TypeError, KeyError, RecursionError, RedcoError) as error:
        raise damaged(root, f"is no journal of redco's: {error}") from error


def damaged(root: Path, what: str) -> RedcoError:
    """The error for a journal that cannot be followed."""
    todo = f"restore what it names from your own copies, and delete the folder {STAGING}"
    return RedcoError(str(journal_file(root)), what, todo)


def remove(root: Path) -> None:
    """End the transaction as it stands: all of it is done, or all of it is undone."""
    journal_file(root).unlink()


def clear(root: Path) -> None:
    """Remove what a transaction that has ended, or never began, has left."""
    sync(staging_folder(root))  # first: a journal that comes back must find its copies
    shutil.rmtree(staging_folder(root))


def _step(root: Path, place: Any, old: Any, new: Any) -> Step:
    for state in (old, new):
        if state is not None and not STATE.fullmatch(state):
            raise ValueError(f"{state!r} is neither a sha256 nor {FOLDER!r}")
    return Step(locate(root, place), old, new)
