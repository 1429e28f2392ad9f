"""What is there for redco and a project of it, and what would fail: packages, devices, compilers, records."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from redco_fit.compilers import environment

from redco_new import __version__
from redco_new.errors import RedcoError
from redco_new.transaction import MANIFEST, unfinished
from redco_new.project.folders import TODO, missing_folders
from redco_new.project.state import ProjectState, read_project_state

DISTRIBUTION = "redco-new"
DEVICES_WITHIN = 60.0  # seconds: a TPU that another process holds makes JAX wait for ever
DEVICES = "import jax; print(*sorted({d.device_kind for d in jax.devices()}), len(jax.devices()), sep=', ')"
ACCELERATORS = {"/dev/nvidia[0-9]*": "cuda12", "/dev/accel*": "tpu", "/dev/vfio/[0-9]*": "tpu"}
SETTINGS = ("JAX_PLATFORMS", "XLA_FLAGS", "LIBTPU_INIT_ARGS", "PYTHONPATH")  # that change a run


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    what: it.  says: how it is.  todo: how to mend it; "" where nothing is wrong.
    """

    what: str
    says: str
    todo: str = ""


def examine(root: Path | None) -> Iterator[Finding]:
    """Yield what is there, and what is wrong: of this environment, and of the project `root` where there is one."""
    yield Finding("redco-new", f"{__version__}, Python {platform.python_version()}")
    yield from _packages(_requirements(root))
    yield _devices()
    yield from (_compiler(name) for name in ("gpu", "tpu"))
    for name in filter(os.environ.get, SETTINGS):
        yield Finding(name, f"is set: {os.environ[name]}")
    if root is not None:
        yield from _project(root)


def _requirements(root: Path | None) -> list[str]:
    """Return what a project asks of its environment; without one, what redco-new does."""
    if root is None:
        return [x for x in metadata.requires(DISTRIBUTION) or [] if "extra ==" not in x]
    try:
        content = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        return [str(x) for x in content["project"]["dependencies"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # which is said of the project


def _packages(requirements: Iterable[str]) -> Iterator[Finding]:
    present = list[str]()
    for text in requirements:
        try:
            requirement = Requirement(text)
            version = metadata.version(requirement.name)
        except InvalidRequirement:
            yield Finding(text, "is no requirement", "mend it in pyproject.toml")
        except metadata.PackageNotFoundError:
            yield Finding(requirement.name, "is not installed", f"pip install '{text}'")
        else:
            if requirement.specifier.contains(version, prereleases=True):
                present.append(f"{requirement.name} {version}")
            else:
                says = f"{version} is installed, and {requirement.specifier} is needed"
                yield Finding(requirement.name, says, f"pip install '{text}'")
    yield Finding("packages", ", ".join(present) or "none of them is there")


def _devices() -> Finding:
    """Return what JAX finds, in a process of its own, which may hang or die."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", DEVICES], capture_output=True, text=True, timeout=DEVICES_WITHIN
        )
    except subprocess.TimeoutExpired:
        says = f"JAX has not found any in {DEVICES_WITHIN:.0f} s"
        return Finding("devices", says, "end the process that holds them, or set JAX_PLATFORMS=cpu")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Finding("devices", f"JAX fails: {last}", "mend that, or set JAX_PLATFORMS=cpu")
    says = done.stdout.strip()
    extra = next((extra for pattern, extra in ACCELERATORS.items() if glob(pattern)), None)
    if extra and says.startswith("cpu") and os.environ.get("JAX_PLATFORMS") != "cpu":
        what = f"{says}; this machine has others, which JAX does not see"
        return Finding("devices", what, f"pip install 'jax[{extra}]'")
    return Finding("devices", says)


def _compiler(name: str) -> Finding:
    """Return whether `redco fit` can compile for gpu or tpu here: it is no fault where it cannot."""
    try:
        environment(name)
    except RedcoError as error:
        return Finding(f"redco fit, {name}", f"{error.what}: {error.todo}")
    return Finding(f"redco fit, {name}", "the compiler is installed")


def _project(root: Path) -> Iterator[Finding]:
    """Yield how a project is: which redco it was made by, and whether files and records agree."""
    if unfinished(root):
        says = "an update was interrupted, or is under way"
        yield Finding("project", says, "`redco update` takes back what it had begun")
        return
    try:
        state = read_project_state(root)
    except RedcoError as error:
        yield Finding("project", f"{error.where}: {error.what}", error.todo)
        return
    by = json.loads(state.records.files[MANIFEST])["generator"]
    todo = "" if by == __version__ else "`redco update` brings it up to date"
    name = state.manifest.request["name"]
    yield Finding("project", f"{name}, of redco-new {by}, in {root}", todo)
    yield from _files(state)
    yield from (Finding(where, what, TODO) for where, what in missing_folders(state))


def _files(state: ProjectState) -> Iterator[Finding]:
    manifest = state.manifest
    missing = [path for path in manifest.files if state.ours(path) is None]
    edited = [
        path
        for path in manifest.files
        if path not in missing and state.ours(path) != state.base(path)
    ]
    yield Finding("files", f"{len(manifest.files)} of redco's, {len(edited)} of them edited")
    if missing:
        todo = "`redco update` brings back those that are generated; `--restore PATH` any"
        yield Finding("files", f"missing: {', '.join(missing)}", todo)
    if manifest.pending:
        names = ", ".join(f"{x.path}::{x.symbol}" for x in manifest.pending)
        todo = "`redco resolve PATH::SYMBOL --mine` or `--theirs`"
        yield Finding("conflicts", f"open: {names}", todo)
