"""Pictures of classes, a folder for each or arrays; those that are learned from are moved a little."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from redco_runtime.cli import print_once
from redco_runtime.errors import UserError, few
from redco_runtime.pictures.checking import check_pictures
from redco_runtime.pictures.reading import fit_picture, read_picture
from redco_runtime.run import FILE, Run, read
from redco_runtime.streams import count_held_out

FILES = (".npy", ".png", ".jpg", ".jpeg")


@dataclass(frozen=True)
class Labelled(Sequence[Any]):
    """Examples {"pixels": uint8 (size, size, channels), "label": int32 ()}; files are read when asked for.

    pictures: files, or arrays, uint8 (height, width), which are resized.
    shift: pixels that a picture is moved at most, up or down and to either side. Each is (2 shift + 1)^2
        examples, one for each way to move it, first all pictures as they are: so what a step learns from
        follows from the order of examples, in a run that goes on too.
    """

    pictures: Sequence[Path | np.ndarray]
    labels: Sequence[int]
    size: int
    channels: int
    shift: int = 0

    def __len__(self) -> int:
        return len(self.labels) * (2 * self.shift + 1) ** 2

    def __getitem__(self, index: Any) -> Any:
        way, place = divmod(range(len(self))[index], len(self.labels))
        picture, ways = self.pictures[place], 2 * self.shift + 1
        read = read_picture if isinstance(picture, Path) else fit_picture
        pixels = read(picture, self.size, self.channels)
        # What is moved in repeats the edge; NumPy has a window that begins at (shift, shift) unmoved.
        top, left = ((step + self.shift) % ways for step in divmod(way, ways))
        padded = np.pad(pixels, [(self.shift, self.shift)] * 2 + [(0, 0)], mode="edge")
        moved = padded[top : top + self.size, left : left + self.size]
        return {"pixels": moved, "label": np.int32(self.labels[place])}


def split_labelled(
    pictures: Sequence[Path | np.ndarray], labels: Sequence[int], data: Any, model: Any, seed: int
) -> tuple[Labelled, Labelled]:
    """Return the training examples, moved by `data.shift` at most, and the held-out ones, as they are.

    data: its field `held_out` is the share that is never trained on.
    model: has image_size, num_channels and num_classes. Raises UserError for labels that it has not.
    """
    if len(pictures) < 2:
        raise UserError(f"there are {len(pictures)} pictures: give two at least")
    if max(labels) >= model.num_classes:
        raise UserError(
            f"{max(labels) + 1} classes, and the model has {model.num_classes}: give --num-classes"
        )
    size, channels = model.image_size, model.num_channels
    check_pictures(pictures, lambda path: read_picture(path, size, channels))
    order = np.random.default_rng(seed).permutation(len(pictures)).tolist()
    held_out = count_held_out(len(order), data.held_out)

    def some(indices: list[int], shift: int) -> Labelled:
        parts = [pictures[i] for i in indices], [labels[i] for i in indices]
        return Labelled(*parts, size, channels, shift)

    return some(order[held_out:], data.shift), some(order[:held_out], 0)


def class_folders(folder: str) -> list[Path]:
    """Return the folders of the classes in `folder`, by name; none where it is not there any more, which it says.

    Those that begin with a dot are of other programs, such as .ipynb_checkpoints.
    """
    if not Path(folder).is_dir():
        print_once(f"--image-folder: {folder} is not here, so that its classes have no names")
        return []
    own = (path for path in Path(folder).iterdir() if not path.name.startswith("."))
    return sorted(path for path in own if path.is_dir())


def with_class_names(run: Run, classes: Callable[[Any], Sequence[str]]) -> Run:
    """Return `run` with the names of its classes: those of --class-names, or of `classes` of its configuration.

    So they are recorded with it, and known where its pictures are not. More than the model has are left out of it.
    Raises UserError for too many of --class-names, and where a run goes on whose `classes` are others by now.
    """
    config: Any = run.config
    most, own = config.model.num_classes, config.data.class_names
    if len(own) > most:
        raise UserError(
            f"--class-names: {few(own)}: {len(own)} names, and the model has {most} classes: give --num-classes"
        )
    names = own or tuple(classes(config))
    path = run.workdir / FILE
    before = read(path)["config"]["data"].get("class_names") if path.exists() else None
    if before and not own and before != [*names]:
        raise UserError(
            f"--image-folder: the classes of the run in {run.workdir} were {few(before)}, and are {few(names)}: give "
            "back those folders, name them by --class-names, or choose another --workdir"
        )
    data = replace(config.data, class_names=names if len(names) <= most else ())
    return replace(run, config=replace(config, data=data))


def labelled_files(folder: str) -> tuple[list[Path], list[int]]:
    """Return the pictures in the folders of the classes, in order, and the number of the class of each. Raises UserError."""
    if not Path(folder).is_dir():
        raise UserError(f"--image-folder: {folder} is not a folder")
    pairs = [
        (path, label)
        for label, within in enumerate(class_folders(folder))
        for path in sorted(within.iterdir())
        if path.suffix.lower() in FILES
    ]
    if len(pairs) < 2:
        classes, kinds = len(class_folders(folder)), ", ".join(FILES)
        raise UserError(
            f"--image-folder: {folder} has {len(pairs)} pictures in {classes} folders of classes: give a folder with "
            f"some of {kinds} for each class"
        )
    return [path for path, _ in pairs], [label for _, label in pairs]
