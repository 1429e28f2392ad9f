"""The licence of a project: --license mit. Its year and holder are written once, in redco.toml, so that no update changes them."""

import subprocess
from datetime import date
from typing import Any

from redco_new.errors import RedcoError

# By SPDX's names (spdx.org/licenses), as pyproject.toml has them.
LICENSES = ("Apache-2.0", "MIT", "BSD-3-Clause")
NONE = "none"


def check_license(where: str, value: Any) -> str:
    """Return SPDX's name of a licence, "" for none. Raises RedcoError."""
    names = {name.lower(): name for name in LICENSES} | {NONE: "", "": ""}
    if not isinstance(value, str) or value.lower() not in names:
        todo = f"choose {', '.join(name.lower() for name in LICENSES)} or {NONE}"
        raise RedcoError(where, f"unknown licence {value!r}", f"{todo}, or write LICENSE yourself")
    return names[value.lower()]


def check_copyright(where: str, value: Any) -> str:
    """Return who holds the copyright, and since when, "2026 Ada Lovelace". Raises RedcoError."""
    if not isinstance(value, str) or not value.isprintable() or '"' in value:
        raise RedcoError(where, f"{value!r} is no line of text", 'give such as "2026 Ada Lovelace"')
    return value.strip()


def copyright_of(project: str) -> str:
    """Return the year, and the name that git has for its user; a placeholder where it has none."""
    try:
        git = ["git", "config", "user.name"]
        said = subprocess.run(git, capture_output=True, text=True, timeout=10).stdout.strip()
        name = check_copyright("user.name of git", said)
    except (OSError, subprocess.SubprocessError, RedcoError):
        name = ""
    return f"{date.today().year} {name or _placeholder(project)}"


def license_notes(project: str, copyright: str) -> list[str]:
    """Return what the user should know of the holder of a project's copyright."""
    if not copyright.endswith(_placeholder(project)):
        return []
    what = f"LICENSE names {_placeholder(project)!r}, since git has no user.name"
    return [f"{what}: write who it is to be to `copyright` in redco.toml, then `redco update`"]


def _placeholder(project: str) -> str:
    return f"the authors of {project}"
