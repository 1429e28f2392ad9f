"""The journal: what a transaction is about to do, on the disk before it does it."""

import json
import os
import re
import shutil
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.transaction.disk import FOLDER, STAGING, locate, sync_to_disk
from redco_new.transaction.steps import Step

SCHEMA = 1
STATE = re.compile(f"{FOLDER}|[0-9a-f]{{64}}")


def staging_folder(root: Path) -> Path:
    """Return where the transaction on `root` keeps its journal and its copies."""
    return root / STAGING


def journal_file(root: Path) -> Path:
    """Return the path of the journal. Without one nothing has changed, or all is committed."""
    return staging_folder(root) / "journal.json"


def old_copy(root: Path, number: int) -> Path:
    """Return where step `number` keeps what it replaces or deletes."""
    return staging_folder(root) / f"{number}.old"


def new_copy(root: Path, number: int) -> Path:
    """Return where step `number` finds what it puts in place."""
    return staging_folder(root) / f"{number}.new"


def unfinished(root: Path) -> bool:
    """Tell whether a transaction on `root` is under way, or is interrupted and not yet undone."""
    return os.path.lexists(journal_file(root))


def write_journal(root: Path, steps: list[Step]) -> None:
    """Record `steps`: from here on they may be done, and are undone unless they are committed."""
    journal = journal_file(root)
    entries = [{"place": step.path, "old": step.old, "new": step.new} for step in steps]
    draft = journal.with_suffix(".draft")
    draft.write_text(json.dumps({"schema": SCHEMA, "steps": entries}, indent=1))
    sync_to_disk(draft)
    os.replace(draft, journal)
    sync_to_disk(journal.parent)
    sync_to_disk(journal.parent.parent)


def read_journal(root: Path) -> list[Step]:
    """Return the steps of an unfinished transaction.

    Raises RedcoError unless it is a journal as `write_journal` writes it, with paths inside the
    project: the file may come from anyone.
    """
    journal = journal_file(root)
    try:
        content = json.loads(journal.read_bytes())
        if content["schema"] != SCHEMA:
            raise ValueError(f"of schema {content['schema']!r}")
        return [_step(root, **entry) for entry in content["steps"]]
    except (ValueError, TypeError, KeyError, RecursionError, RedcoError) as error:
        raise journal_error(root, f"is no journal of redco's: {error}") from error


def journal_error(root: Path, what: str) -> RedcoError:
    """Return the error for a journal that cannot be followed."""
    todo = f"restore what it names from your own copies, and delete the folder {STAGING}"
    return RedcoError(str(journal_file(root)), what, todo)


def remove_journal(root: Path) -> None:
    """End the transaction as it stands: all of it is done, or all of it is undone."""
    journal_file(root).unlink()


def clear_staging(root: Path) -> None:
    """Remove what a transaction that has ended, or never began, has left."""
    sync_to_disk(staging_folder(root))  # first: a journal that comes back must find its copies
    shutil.rmtree(staging_folder(root))


def _step(root: Path, place: str, old: str | None, new: str | None) -> Step:
    for state in (old, new):
        if state is not None and not STATE.fullmatch(state):
            raise ValueError(f"{state!r} is neither a sha256 nor {FOLDER!r}")
    return Step(locate(root, place), old, new)
