"""Checkpoints: asynchronous, atomic, restorable onto any mesh, verified before they are used.

A checkpoint is the folder <directory>/<step>. Orbax writes it under another name and renames it
when it is whole; by then checksums.json, the sha256 of its files, is in it. Parameters that are
frozen are the same in all: they are written once, before the first, to <directory>/frozen/<step>.
"""

import hashlib
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from redco_runtime.differences import describe, differences
from redco_runtime.errors import UserError, listed, writing
from redco_runtime.progress import PROGRESS
from redco_runtime.state import ModelState, PyTree, flatten, rebuild

CHECKSUMS = "checksums.json"
REWRITTEN = "_CHECKPOINT_METADATA"  # Orbax adds the time of the commit to it after the checksums
# Seconds that processes wait for the slowest one to write: three times what Orbax gives, for slow disks.
SAVE_TIMEOUT = 3600
ITEM = "default"  # what Orbax calls the only item of a checkpoint
FROZEN = "frozen/"  # how the names of frozen parameters begin, and the folder that has them
MODEL = ("params/", "variables/", "frozen/")  # of these names, those of the model
AVERAGE = ("ema/", "variables/", "frozen/")  # and those of its moving average
LATER = ("grad_norm",)  # scalars that checkpoints of earlier versions lack; they begin at 0
POSITION = "position"  # beside the shapes of parameters, which have a path

State = TypeVar("State")  # a pytree, such as a TrainState
Flat = Mapping[str, Any]  # name -> leaf, as `flatten` makes it


class Checkpoints(AbstractContextManager):
    """The checkpoints in one directory; the newest `keep` stay.

    With several processes all make each call, and all see the directory. Raises UserError for what
    cannot be written or read.
    shapes: the parameters without their padding, which a mesh can have its own of; with it, a state
    comes back in another.
    position: where the examples were that have no length, of what was restored.
    """

    def __init__(self, directory: Path, keep: int = 2, shapes: PyTree = None) -> None:
        self.directory, self.keep = Path(directory).absolute(), keep
        self._shapes = {path: leaf.shape for path, leaf in flatten(shapes).items()}
        self.position: Mapping[str, Any] | None = None
        self._manager: Any = None
        self._frozen_is_there = False
        self._saving = -1
        self._damaged: list[int] = []

    def latest(self) -> int | None:
        """Return the newest step that is completely written, verified or not."""
        return max(self._steps(), default=None)

    def save(self, step: int, state: PyTree, position: Mapping[str, Any] | None = None) -> None:
        """Start to write `state`, a TrainState; return when it is copied off the devices.

        position: of the examples, as TrainBatches has it.
        Does nothing for the step that was saved last. Raises what the save before ran into.
        """
        PROGRESS.at("a save")
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
                frozen, leaves = _divide(flatten(state))
                if frozen and not self._frozen_is_there:
                    self._save_frozen(frozen, anew=latest is None)
                about = self._shapes | ({POSITION: position} if position else {})
                arguments = _orbax().args.PyTreeSave(leaves, custom_metadata=about)
                self._manager.save(step, args=arguments, force=True)

    def _save_frozen(self, leaves: Flat, anew: bool) -> None:
        """Write what is frozen, if it is `anew`: of a run that has no checkpoint."""
        if anew:
            with Checkpoints(self.directory / FROZEN, keep=1) as once:
                before = once.latest()
                once.save(0 if before is None else before + 1, leaves)  # of a run that never saved
        self._frozen_is_there = True

    def restore(self, abstract: State, parts: tuple[str, ...] = ("",)) -> tuple[int, State] | None:
        """Return (step, state) of the newest intact checkpoint; None where there are no checkpoints.

        A damaged checkpoint is named on stderr and the one before it used. Raises UserError if all
        are damaged, or it does not fit.
        abstract: a jax.ShapeDtypeStruct with its sharding for each tensor, on any mesh.
        parts: how the names of the tensors begin that it has; of the checkpoint, the rest is ignored.
        """
        folder = self._newest()
        return None if folder is None else (int(folder.name), self._fill(folder, abstract, parts))

    def _fill(self, folder: Path, abstract: State, parts: tuple[str, ...]) -> State:
        folders = self._folders(folder)
        wanted, (stored, shapes) = flatten(abstract), _heads(folders, parts)
        self.position = shapes.get(POSITION)
        absent = {
            path: jnp.zeros((), wanted[path].dtype, device=wanted.pop(path).sharding)
            for path in LATER
            if path in wanted and path not in stored
        }
        self._check_fit(folder, wanted, stored, shapes, self._shapes)
        return rebuild(abstract, {**_read(folders, wanted), **absent})

    def restore_common(self, model: ModelState) -> tuple[Flat, list[str]]:
        """Return (what it has of an abstract model, by path; paths of what that model has not).

        As `restore`, where there is a checkpoint. A dtype becomes that of the model, a shape must be.
        What is frozen in one of the two may be trained in the other. Where it is of several models,
        and none of its paths is here, it is the model that it trained that is read.
        """
        if (folder := self._newest()) is None:
            raise self._absent()
        folders = self._folders(folder)
        stored, shapes = _heads(folders, MODEL)
        trained_last = sorted(stored, key=lambda name: name.startswith(MODEL[0]))
        names = {name.partition("/")[2]: name for name in trained_last}
        if names.keys().isdisjoint(model.arrays):
            names = {path.partition("/")[2]: name for path, name in names.items()}
        wanted = {names[path]: leaf for path, leaf in model.arrays.items() if path in names}
        same = {name: leaf.update(shape=stored[name].shape) for name, leaf in wanted.items()}
        ours = {names[p].partition("/")[2]: x for p, x in self._shapes.items() if p in names}
        self._check_fit(folder, wanted, same, shapes, ours)
        arrays = _read(folders, wanted)
        common = {path: arrays[name] for path, name in names.items() if name in arrays}
        return common, sorted(names.keys() - common.keys())

    def restore_model(self, abstract: ModelState) -> tuple[int, ModelState]:
        """Return (step, model) as `restore` does. Raises UserError where there is no checkpoint.

        Its parameters are the moving average of those of the run, where it has one.
        """
        if (folder := self._newest()) is None:
            raise self._absent()
        if not _heads([folder], AVERAGE[:1])[0]:
            return int(folder.name), self._fill(folder, abstract, MODEL)
        named = {"ema": abstract.params, "variables": abstract.variables, "frozen": abstract.frozen}
        average = self._fill(folder, named, AVERAGE)
        return int(folder.name), ModelState(**{"params": average.pop("ema"), **average})

    def _folders(self, folder: Path) -> list[Path]:
        """Return that of a checkpoint, and that of what is frozen, verified, where something is."""
        frozen = Checkpoints(self.directory / FROZEN)._newest()
        return [folder] if frozen is None else [folder, frozen]

    def _absent(self) -> UserError:
        return UserError(f"no checkpoint in {self.directory}: train first, or see --workdir")

    def _check_fit(
        self, folder: Path, wanted: Flat, stored: Flat, theirs: Flat, ours: Flat
    ) -> None:
        theirs, ours = (theirs, ours) if theirs and ours else ({}, {})
        if faults := differences(describe(stored, theirs), describe(wanted, ours)):
            todo = (
                "Go back to the model and optimizer that wrote it, or train in another --workdir: "
                f"--init {self.directory} starts there from the parameters that still fit, once those "
                "of another shape have another name in model.py."
            )
            raise UserError(listed(f"checkpoint {folder} does not fit the model:", faults, todo))

    def _newest(self) -> Path | None:
        self.wait()
        steps, self._damaged = self._steps(), []
        while (step := _least(max(steps, default=-1))) >= 0:
            folder = self.directory / str(step)
            damage = _damage(folder)
            if damage is None:
                return folder
            self._damaged.append(step)
            if jax.process_index() == 0:
                print(f"warning: checkpoint {step} is not used: {damage}", file=sys.stderr)
            steps = [older for older in steps if older < step]
        if self._damaged:
            raise UserError(
                f"no checkpoint in {self.directory} is intact: bring back a copy of one, or choose "
                "another --workdir to start again"
            )
        return None

    def wait(self) -> None:
        """Return when all that was saved is on disk."""
        if self._manager is not None:
            before = PROGRESS.doing
            PROGRESS.at("the end of a save")
            with self._writing():
                self._manager.wait_until_finished()
            PROGRESS.at(before.what, before.step)

    def close(self) -> None:
        """Wait as `wait` does, and end the threads."""
        manager, self._manager = self._manager, None
        if manager is not None:
            with self._writing():
                manager.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _steps(self) -> list[int]:
        return [int(path.name) for path in self.directory.glob("*") if path.name.isdecimal()]

    def _open(self) -> Any:
        """Return the writer. It tidies up, so a program that only reads must not make one."""
        asynchronous = _orbax().options.AsyncOptions(
            timeout_secs=SAVE_TIMEOUT, post_finalization_callback=self._add_checksums
        )
        options = _orbax().CheckpointManagerOptions(
            max_to_keep=self.keep, cleanup_tmp_directories=True, async_options=asynchronous
        )
        return _orbax().CheckpointManager(self.directory, options=options)

    def _add_checksums(self) -> None:
        """Write checksums.json: Orbax calls it on process 0 just before the rename."""
        folder = self.directory / f"{self._saving}.orbax-checkpoint-tmp"
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != REWRITTEN]
        names = sorted(str(path.relative_to(folder)) for path in files)
        (folder / CHECKSUMS).write_text(json.dumps(_digests(folder, names), indent=1))

    def _writing(self) -> AbstractContextManager[None]:
        return writing(f"a checkpoint to {self.directory}", Exception)


def _divide(leaves: Flat) -> tuple[Flat, Flat]:
    """Return (those that are frozen, by path, the others by name)."""
    frozen = {k.removeprefix(FROZEN): v for k, v in leaves.items() if k.startswith(FROZEN)}
    return frozen, {k: v for k, v in leaves.items() if not k.startswith(FROZEN)}


def _heads(folders: Sequence[Path], parts: tuple[str, ...]) -> tuple[Flat, Flat]:
    """Return (tensors whose names begin so, path of a parameter -> shape without padding)."""
    stored, shapes = dict[str, Any](), dict[str, Any]()
    for folder, prefix in zip(folders, ("", FROZEN), strict=False):
        with _orbax().PyTreeCheckpointer() as reader:
            metadata = reader.metadata(folder / ITEM).item_metadata
        stored |= {prefix + path: leaf for path, leaf in metadata.tree.items()}
        shapes |= metadata.custom_metadata or {}
    return {name: leaf for name, leaf in stored.items() if name.startswith(parts)}, shapes


def _read(folders: Sequence[Path], wanted: Flat) -> Flat:
    """Read the tensors that are `wanted`; of a dim that is longer there or here, what differs is padding."""
    frozen, others = _divide(wanted)
    leaves = {**_read_one(folders[0], others)} if others else {}
    if frozen:
        leaves |= {FROZEN + path: leaf for path, leaf in _read_one(folders[1], frozen).items()}
    return leaves


def _read_one(folder: Path, wanted: Flat) -> Flat:
    arguments = _orbax().args.PyTreeRestore(
        item=wanted,
        restore_args=_orbax().checkpoint_utils.construct_restore_args(wanted, strict=False),
        partial_restore=True,
    )
    with _orbax().PyTreeCheckpointer() as reader:
        return reader.restore(folder / ITEM, args=arguments)


def _digests(folder: Path, names: list[str]) -> dict[str, str]:
    """Return the sha256 of each file; empty where it is missing."""

    def digest(name: str) -> str:
        if not (folder / name).is_file():
            return ""
        with open(folder / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(digest, names), strict=True))


def _damage(folder: Path) -> str | None:
    """Return what is wrong with a checkpoint. The processes share the files out, and all learn of it."""
    try:
        sums = json.loads((folder / CHECKSUMS).read_text())
    except (OSError, ValueError):
        sums = {}
    names = [CHECKSUMS, *sums]
    digests = _digests(folder, names[1 + jax.process_index() :: jax.process_count()])
    bad = [names.index(name) for name, digest in digests.items() if digest != sums[name]]
    first = _least(min(bad, default=len(names)) if sums else 0)
    return None if first == len(names) else f"{folder / names[first]} is missing or has changed"


def _least(value: int) -> int:
    """Return the least of what the processes say: they may see a shared directory at different ages."""
    return int(np.min(multihost_utils.process_allgather(np.int32(value))))


@cache
def _orbax() -> Any:
    """Import the package: late, since it takes 0.6 s, and without its log. What goes wrong is raised."""
    import orbax.checkpoint

    logging.getLogger("absl").addFilter(lambda record: "/orbax/checkpoint/" not in record.pathname)
    # Of a write that fails, these tell the same once a tensor: asyncio, and TensorStore of its loop.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    before = sys.unraisablehook
    sys.unraisablehook = lambda fault: (
        None if str(fault.exc_value) == "Event loop is closed" else before(fault)
    )
    return orbax.checkpoint
