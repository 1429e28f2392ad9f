"""Where the text of a path becomes a path: no text with a scheme is ever the name of a local folder."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from .errors import UserError

BUCKETS = ("gs", "s3", "az")


def scheme_of(text: object) -> str:
    """Return what a path begins with before `://`, "" for one of this machine.

    `s3:/bucket` is one of s3 too: pathlib leaves that of it.
    """
    head, mark, _ = str(text).partition(":/")
    plain = head.replace("+", "").replace("-", "").isalnum()
    return head if mark and plain and (head in BUCKETS or "://" in str(text)) else ""


def local_path(text: str) -> Path:
    """Parse the path of a file or folder of this machine or of a file system that it mounts."""
    if scheme_of(text):
        what = "is no path of this machine: give one, or one where that bucket is mounted"
        raise argparse.ArgumentTypeError(f"{text!r} {what}")
    try:
        Path(text).exists()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be one: {error.strerror}") from None
    return Path(text)


def check_local(flag: str, names: str | Iterable[str] | None) -> None:
    """Raise UserError where a value of a flag, or one of several, is of no path of this machine."""
    for name in [names] if isinstance(names, str) else names or ():
        try:
            local_path(name)
        except argparse.ArgumentTypeError as error:
            raise UserError(f"{flag}: {error}") from None
