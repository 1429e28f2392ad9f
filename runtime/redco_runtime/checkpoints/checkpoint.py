"""Checkpoints: asynchronous, atomic, restorable onto any mesh, verified before they are used.

A checkpoint is the folder <directory>/<step>. Orbax writes it under another name and renames it
when it is whole, or in a bucket writes commit_success.txt last; by then checksums.json is in it. Parameters that are
frozen are the same in all: they are written once, before the first, to <directory>/frozen/<step>.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import jax
import jax.numpy as jnp

from ..base.messages import UserError, listed, writing
from ..base.files import is_bucket, path_of, send_lines, whole_checkpoints
from ..base.progress import PROGRESS
from ..base.state import ModelState, PyTree, flatten, rebuild
from ..base.together import decide, patience
from ..run.record import BEST, LAST
from .checksums import Damaged, write_checksums
from . import tensors
from .tensors import Flat, describe, differences

MODEL = ("params/", "variables/", "frozen/")  # of these names, those of the model
AVERAGE = ("ema/", "variables/", "frozen/")  # and those of its moving average
AT_ONCE = 2  # GB that are compressed, and held twice, beside the largest array
POSITION = "position"  # beside the shapes of parameters, which have a path

State = TypeVar("State")  # a pytree, such as a TrainState, or what is read of one


class Checkpoints(AbstractContextManager):
    """The checkpoints in one directory; the newest `keep` stay, and those at multiples of `keep_every` steps.

    With several processes all make each call, and all see the directory. Raises UserError for what
    cannot be written or read.
    shapes: the parameters without padding, which a mesh can have its own of: with it, a state comes back in another.
    position: where the examples were that have no length, of what was restored.
    """

    def __init__(
        self, directory: Path, keep: int = 2, shapes: PyTree = None, keep_every: int = 0
    ) -> None:
        self.directory = path_of(directory).absolute()
        self._retention = {"max_to_keep": keep, "keep_period": keep_every or None}
        if is_bucket(self.directory):
            self.directory.teach_orbax()
        self._shapes = {path: leaf.shape for path, leaf in flatten(shapes).items()}
        self.position: Mapping[str, Any] | None = None
        self._manager: Any = None
        self._frozen_is_there = False
        self._saving = -1
        self._damaged: list[int] = []

    def latest(self) -> int | None:
        """Return the newest step that is completely written, verified or not."""
        return max(whole_checkpoints(self.directory), default=None)

    def save(self, step: int, state: PyTree, position: Mapping[str, Any] | None = None) -> None:
        """Start to write `state`, a TrainState; return when it is copied off the devices.

        position: of the examples, as TrainBatches has it.
        Does nothing for the step that was saved last. Raises what the save before ran into.
        """
        PROGRESS.at("a save")
        with self._writing():
            self._manager = self._manager or self._open(state)
            self._manager.wait_until_finished()
            while self._damaged:
                self._manager.delete(self._damaged.pop())
            latest = self._manager.latest_step()
            if latest is not None and latest > step:
                raise FileExistsError(f"step {latest} is there, which is later than step {step}")
            if latest != step:
                self._saving = step
                frozen, leaves = tensors.divide(flatten(state))
                if frozen and not self._frozen_is_there:
                    self._save_frozen(frozen, anew=latest is None)
                about = self._shapes | ({POSITION: position} if position else {})
                arguments = tensors.orbax().args.PyTreeSave(leaves, custom_metadata=about)
                self._manager.save(step, args=arguments, force=True)

    def _save_frozen(self, leaves: Flat, anew: bool) -> None:
        """Write what is frozen, if it is `anew`: of a run that has no checkpoint."""
        if anew:
            with Checkpoints(self.directory / tensors.FROZEN, keep=1) as once:
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
        return self._newest(lambda folder: (int(folder.name), self._fill(folder, abstract, parts)))

    def _fill(
        self, folder: Path, abstract: State, parts: tuple[str, ...], alone: bool = False
    ) -> State:
        """Return `abstract` with its tensors; alone: of a model, which another recipe may have trained."""
        folders = self._folders(folder)
        wanted, (stored, shapes) = flatten(abstract), tensors.heads(folders, parts)
        self.position = shapes.get(POSITION)
        later = [path for path in wanted.keys() - stored.keys() if tensors.is_later(path)]
        names, rest = tensors.trained_before(wanted, stored, shapes)
        lacks = not wanted.keys() - later - names.keys() <= stored.keys()
        if alone and lacks and (others := tensors.names_of_other(wanted, stored)):
            paths = {_path(here): _path(there) for here, there in others.items()}
            renamed = {here: stored[there] for here, there in others.items()}
            theirs = {here: shapes[there] for here, there in paths.items() if there in shapes}
            self._check_fit(folder, wanted, renamed, theirs, self._shapes)
            return rebuild(abstract, tensors.read_as(folders, wanted, others))
        zeros = {path: wanted.pop(path) for path in later}
        absent = {k: jnp.zeros(x.shape, x.dtype, device=x.sharding) for k, x in zeros.items()}
        same = {path: leaf for path, leaf in wanted.items() if path not in names}
        self._check_fit(folder, same, rest, shapes, self._shapes)
        named = {path: names.get(path, path) for path in wanted}
        return rebuild(abstract, {**tensors.read_as(folders, wanted, named), **absent})

    def restore_common(
        self, arrays: Flat, further: Callable[[Flat, Flat], Flat] = lambda *_: {}
    ) -> tuple[Flat, list[str]]:
        """Return (what it has of these and of `further`, by path; paths of what else it has).

        arrays: those of an abstract model. further: (all that it has, without padding; arrays) -> what else
        of it to read, and where it is to lie, by path.
        As `restore`, where there is a checkpoint. A dtype becomes that of the model, a shape must be.
        What is frozen in one of the two may be trained in the other. Where it is of several models,
        and none of its paths is here, it is the model that it trained that is read.
        """
        return self._newest(lambda x: self._common(x, arrays, further)) or self._absent()

    def _common(
        self, folder: Path, arrays: Flat, further: Callable[[Flat, Flat], Flat]
    ) -> tuple[Flat, list[str]]:
        folders = self._folders(folder)
        stored, shapes = tensors.heads(folders, MODEL)
        trained_last = sorted(stored, key=lambda name: name.startswith(MODEL[0]))
        names = {_path(name): name for name in trained_last}
        if names.keys().isdisjoint(arrays):
            names = {_path(path): name for path, name in names.items()}
        also = further(tensors.bare(stored, names, shapes), arrays)
        wanted = {names[path]: leaf for path, leaf in {**arrays, **also}.items() if path in names}
        same = {name: leaf.update(shape=stored[name].shape) for name, leaf in wanted.items()}
        own = self._shapes | {path: leaf.shape for path, leaf in also.items()}
        ours = {_path(names[p]): x for p, x in own.items() if p in names}
        self._check_fit(folder, wanted, same, shapes, ours)
        leaves = tensors.read(folders, wanted)
        common = {path: leaves[name] for path, name in names.items() if name in leaves}
        return common, sorted(names.keys() - common.keys())

    def restore_model(self, abstract: ModelState) -> tuple[int, ModelState]:
        """Return (step, model) as `restore` does. Raises UserError where there is no checkpoint.

        Its parameters are the moving average of those of the run, where it has one. A run of another recipe,
        whose models have other branches or none, is that of the model that it trained.
        """
        return self._newest(lambda x: (int(x.name), self._model(x, abstract))) or self._absent()

    def _model(self, folder: Path, abstract: ModelState) -> ModelState:
        if not tensors.heads([folder], AVERAGE[:1])[0]:
            return self._fill(folder, abstract, MODEL, alone=True)
        named = {"ema": abstract.params, "variables": abstract.variables, "frozen": abstract.frozen}
        average = self._fill(folder, named, AVERAGE, alone=True)
        return ModelState(**{"params": average.pop("ema"), **average})

    def history(self) -> Mapping[str, Any]:
        """Return the position of the newest, of which a run that starts from it takes what Accounted examples need.

        A best one has that of its run, which has seen as much and more.
        """
        parents = (self.directory, *self.directory.parents)
        run = next((path.with_name(LAST) for path in parents if path.name == BEST), None)
        newest = (Checkpoints(run) if run else self)._newest
        return newest(lambda folder: tensors.heads([folder], ())[1].get(POSITION)) or {}

    def paths(self) -> set[str]:
        """Return the paths of what the newest has of models, beside what is frozen."""
        return self._newest(lambda x: {*map(_path, tensors.heads([x], MODEL)[0])}) or set()

    def _folders(self, folder: Path) -> list[Path]:
        """Return that of a checkpoint, and that of what is frozen, where something is."""
        frozen = Checkpoints(self.directory / tensors.FROZEN)._newest(lambda folder: folder)
        return [folder] if frozen is None else [folder, frozen]

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

    def _absent(self) -> NoReturn:
        raise UserError(f"no checkpoint in {self.directory}: train first, or see --workdir")

    def _newest(self, use: Callable[[Path], State]) -> State | None:
        """Return what `use` reads of the newest checkpoint in which that is intact; None where there is none."""
        self.wait()
        steps, self._damaged = whole_checkpoints(self.directory), []
        # Some may see a shared directory as it was.
        while (step := decide("the checkpoints that it sees", max(steps, default=-1), min)) >= 0:
            try:
                return use(self.directory / str(step))
            except Damaged as fault:
                damage = str(fault)
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

    def _open(self, state: PyTree) -> Any:
        """Return the writer of such states. It tidies up, so a program that only reads must not make one."""
        orbax = tensors.orbax()
        asynchronous = orbax.options.AsyncOptions(
            timeout_secs=patience(), post_finalization_callback=self._add_checksums
        )
        becoming_whole = {"cleanup_tmp_directories": True}
        if is_bucket(self.directory):
            becoming_whole = self.directory.checkpoint_options(tidy=jax.process_index() == 0)
        options = orbax.CheckpointManagerOptions(
            async_options=asynchronous, **self._retention, **becoming_whole
        )
        most = max(x.nbytes for x in jax.tree.leaves(state)) // 10**9 + AT_ONCE
        # zarr3 can have checksums.
        handler = orbax.PyTreeCheckpointHandler(use_zarr3=True, save_concurrent_gb=most)
        writer = orbax.CheckpointManager(self.directory, options=options, item_handlers=handler)
        # It would tell JAX its own step in the place of Stop's count, and a signal that comes then be lost.
        writer.reached_preemption = lambda step: False
        return writer

    def _add_checksums(self) -> None:
        """Write checksums.json: Orbax calls it on process 0 just before the rename."""
        if is_bucket(self.directory):
            send_lines()  # of the steps that it has
            return write_checksums(self.directory / str(self._saving))
        write_checksums(self.directory / f"{self._saving}.orbax-checkpoint-tmp")

    def _writing(self) -> AbstractContextManager[None]:
        return writing(f"a checkpoint to {self.directory}", Exception)


def _path(name: str) -> str:
    return name.partition("/")[2]
