"""What redco remembers of a project, in its .redco/: the manifest, and a pristine copy of each file.

The manifest tells an untouched file from an edited one; the copies are the base of a three-way merge.
"""

import hashlib
import json
from collections.abc import Mapping

from redco_new import __version__
from redco_new.owners import owner
from redco_new.request import Request

SCHEMA = 1
MANIFEST = ".redco/manifest.json"
BASE = ".redco/base/"
BASE_SUFFIX = ".base"  # so that linters and pytest pass the copies by


def records(request: Request, files: Mapping[str, str]) -> dict[str, str]:
    """{path: text} of what goes into .redco/ for a project of these files."""
    base = {f"{BASE}{path}{BASE_SUFFIX}": text for path, text in files.items()}
    return {MANIFEST: manifest(request, files), **base}


def manifest(request: Request, files: Mapping[str, str]) -> str:
    """The manifest as JSON: keys sorted, a final newline, the same text for the same input."""
    entries = {
        path: {"owner": owner(path, request.package), "sha256": sha256(text.encode())}
        for path, text in files.items()
    }
    content = {
        "schema": SCHEMA,
        "generator": __version__,
        "request": request.to_dict(),
        "files": entries,
    }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def sha256(content: bytes) -> str:
    """The hash of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()
