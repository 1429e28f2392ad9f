"""Checkpoints: asynchronous, atomic, restorable onto any mesh, verified before they are used.

A checkpoint is the folder <directory>/<step>. Orbax writes it under another name and renames it
when it is whole; by then checksums.json, the sha256 of its files, is in it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from redco_runtime.errors import UserError

PyTree = Any
CHECKSUMS = "checksums.json"
REWRITTEN = "_CHECKPOINT_METADATA"  # Orbax adds the time of the commit to it after the checksums
SAVE_TIMEOUT = 3600  # seconds that processes wait for the slowest one to write
INTACT = 2**31 - 1  # in place of the position of a damaged file


class CheckpointMismatch(UserError):
    """The tensors of a checkpoint are not those of the model."""


class Checkpoints(AbstractContextManager):
    """The checkpoints in one directory; the newest `keep` stay.

    A state is a pytree of jax.Arrays. With several processes all make each call, and all see the
    directory. Raises UserError for what cannot be written or read.
    """

    def __init__(self, directory: Path, keep: int = 2) -> None:
        self.directory, self.keep = Path(directory).absolute(), keep
        self._manager: Any = None
        self._saving = -1
        self._damaged: list[int] = []

    def latest(self) -> int | None:
        """The newest step that is completely written, verified or not."""
        return max(self._steps(), default=None)

    def save(self, step: int, state: PyTree) -> None:
        """Starts to write `state`; returns when it is copied off the devices.

        Does nothing for the step that was saved last. Raises what the save before ran into.
        """
        with self._writing():
            self._manager = self._manager or self._open()
            self._manager.wait_until_finished()
            while self._damaged:
                self._manager.delete(self._damaged.pop())
            latest = self._manager.latest_step()
            if latest is not None and latest > step:
                raise FileExistsError(f"step {latest} is there, which is later than step {step}")
            if latest != step:
                self._saving = step
                arguments = _orbax().args.PyTreeSave(flatten(state))
                self._manager.save(step, args=arguments, force=True)

    def restore(self, abstract_state: PyTree) -> tuple[int, PyTree] | None:
        """(step, state) of the newest intact checkpoint; None where there are no checkpoints.

        abstract_state: a jax.ShapeDtypeStruct with its sharding for each tensor, on any mesh. A
        damaged checkpoint is named on stderr and the one before it used; UserError if all are
        damaged. Raises CheckpointMismatch where names, shapes or dtypes differ.
        """
        step = self._newest_intact()
        return None if step is None else (step, self._read(step, abstract_state, ""))

    def restore_params(self, abstract_params: PyTree) -> tuple[int, PyTree]:
        """(step, params): as `restore`, reading only the field `params` of the saved state.

        Raises UserError where there are no checkpoints.
        """
        step = self._newest_intact()
        if step is None:
            raise UserError(f"no checkpoint in {self.directory}: train first, or see --workdir")
        return step, self._read(step, abstract_params, "params/")

    def wait(self) -> None:
        """Returns when all that was saved is on disk."""
        if self._manager is not None:
            with self._writing():
                self._manager.wait_until_finished()

    def close(self) -> None:
        """As `wait`, and ends the threads."""
        manager, self._manager = self._manager, None
        if manager is not None:
            with self._writing():
                manager.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _steps(self) -> list[int]:
        return [int(path.name) for path in self.directory.glob("*") if path.name.isdecimal()]

    def _open(self) -> Any:
        """The writer. It tidies up, so a program that only reads must not make one."""
        ocp = _orbax()
        asynchronous = ocp.options.AsyncOptions(
            timeout_secs=SAVE_TIMEOUT, post_finalization_callback=self._add_checksums
        )
        options = ocp.CheckpointManagerOptions(
            max_to_keep=self.keep,
            cleanup_tmp_directories=True,
            lightweight_initialize=True,
            async_options=asynchronous,
        )
        return ocp.CheckpointManager(self.directory, options=options)

    def _add_checksums(self) -> None:
        """Called by Orbax on process 0 when all is written, just before the rename."""
        folder = self.directory / f"{self._saving}.orbax-checkpoint-tmp"
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != REWRITTEN]
        names = sorted(str(path.relative_to(folder)) for path in files)
        (folder / CHECKSUMS).write_text(json.dumps(_digests(folder, names), indent=1))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise UserError(
                f"cannot write a checkpoint to {self.directory}: {error}\n"
                "Mend that or choose another --workdir. The checkpoints that are there are whole."
            ) from error

    def _newest_intact(self) -> int | None:
        self.wait()
        steps, self._damaged = self._steps(), []
        while (step := _least(max(steps, default=-1))) >= 0:
            damage = _damage(self.directory / str(step))
            if damage is None:
                return step
            self._damaged.append(step)
            if jax.process_index() == 0:
                print(f"warning: checkpoint {step} is not used: {damage}", file=sys.stderr)
            steps = [each for each in steps if each < step]
        if self._damaged:
            raise UserError(
                f"no checkpoint in {self.directory} is intact: bring back a copy of one, or choose "
                "another --workdir to start again"
            )
        return None

    def _read(self, step: int, abstract: PyTree, prefix: str) -> PyTree:
        ocp, wanted = _orbax(), flatten(abstract, prefix)
        folder = self.directory / str(step) / "default"  # Orbax's name for an only item
        arguments = ocp.args.PyTreeRestore(
            item=wanted,
            restore_args=ocp.checkpoint_utils.construct_restore_args(wanted),
            partial_restore=True,
        )
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
            stored = reader.metadata(folder).item_metadata.tree
            stored = {path: leaf for path, leaf in stored.items() if path.startswith(prefix)}
            _check_fit(folder.parent, wanted, stored)
            flat = reader.restore(folder, args=arguments)
        return jax.tree.unflatten(jax.tree.structure(abstract), [flat[path] for path in wanted])


def flatten(tree: PyTree, prefix: str = "") -> dict[str, Any]:
    """{"params/layers/attn/q/kernel": leaf}: names that no class of a node is part of."""
    return {
        prefix + jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


def _digests(folder: Path, names: list[str]) -> dict[str, str]:
    """The sha256 of each file; empty where it is missing."""

    def digest(name: str) -> str:
        if not (folder / name).is_file():
            return ""
        with open(folder / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(digest, names), strict=True))


def _damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint. The processes share the files out, and all learn of it."""
    try:
        sums = json.loads((folder / CHECKSUMS).read_text())
    except (OSError, ValueError):
        sums = {}
    names = [CHECKSUMS, *sums]
    found = _digests(folder, names[1 + jax.process_index() :: jax.process_count()])
    bad = [names.index(name) for name, digest in found.items() if digest != sums[name]]
    first = _least(min(bad, default=INTACT) if sums else 0)
    return None if first == INTACT else f"{folder / names[first]} is missing or has changed"


def _least(value: int) -> int:
    """The least of what the processes say: they may see a shared directory at different ages."""
    return int(np.min(multihost_utils.process_allgather(np.int32(value))))


def _check_fit(folder: Path, wanted: dict[str, Any], stored: dict[str, Any]) -> None:
    def describe(leaf: Any) -> str:
        return f"{np.dtype(leaf.dtype).name}{list(leaf.shape)}" if leaf is not None else "absent"

    lines = []
    for path in sorted(wanted.keys() | stored.keys()):
        there, here = describe(stored.get(path)), describe(wanted.get(path))
        if there != here:
            lines.append(f"  {path}: {there} there, {here} in the model")
    if lines:
        lines.append("Go back to the model that wrote it, or choose another --workdir.")
        raise CheckpointMismatch(f"checkpoint {folder} does not fit:\n" + "\n".join(lines))


@cache
def _orbax() -> Any:
    """The package: late, since it takes 0.6 s, and without its log. What goes wrong is raised."""
    import orbax.checkpoint

    logging.getLogger("absl").addFilter(lambda record: "/orbax/checkpoint/" not in record.pathname)
    return orbax.checkpoint
