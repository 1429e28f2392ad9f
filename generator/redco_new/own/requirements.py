"""The packages that a class of the user's own comes from."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata

from packaging.version import Version

from redco_new.own.find import Reference


def find_requirements(references: Iterable[Reference]) -> tuple[str, ...]:
    """Return what pip needs, so that classes and functions can be imported where they are no files.

    Of one major version, that which is here: the next may not have the class any more, as
    transformers 5 has no Flax.
    """
    modules = {x.module.partition(".")[0] for x in references if not x.file}
    owners = metadata.packages_distributions() if modules else {}
    names = {name for module in modules for name in owners.get(module, ())}
    return tuple(f"{name}{_same_major(metadata.version(name))}" for name in sorted(names))


def _same_major(version: str) -> str:
    """Return the bounds of a version; none for what is no release, which no bounds would take."""
    parsed = Version(version)
    if parsed.is_prerelease:
        return ""
    return f">={parsed.major},<{parsed.major + 1}" if parsed.major else "<1"
