"""Changing files of a project, all or none: `locked`, then `recover`, then `apply`.

Killed at any moment, the project is as before or as after, once `recover` has run. README.md lists
the stages.
"""

from redco_new.transaction.commit import apply, recover
from redco_new.transaction.disk import LOCK, MANIFEST, locate, sha256, sync_to_disk
from redco_new.transaction.journal import unfinished
from redco_new.transaction.lock import locked
from redco_new.transaction.steps import Change

__all__ = [
    "LOCK",
    "MANIFEST",
    "Change",
    "apply",
    "locate",
    "locked",
    "recover",
    "sha256",
    "sync_to_disk",
    "unfinished",
]
