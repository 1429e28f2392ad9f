"""Pictures by their classes: a folder for each, or the label of a row, matched by name with those of a run."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...base.messages import UserError, announce, feature, few
from ...run.record import Run
from ..class_numbers import number_of, say_rare
from ..classes import check_names
from ..example_streams import count_held_out
from .checking import check_pictures
from .copies import say_copies
from .files import files_in
from .framing import framing_of
from .opening import FILES
from .processor import with_processor
from .reading import read_picture
from .shifted import Labelled, shift_pictures

# Names of parts of a data set, which are no classes where they have folders.
PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"}
FIELD = "label"  # of a row


def prepare_pictures(run: Run, classes: Callable[[Any], Sequence[str]]) -> Run:
    """Return `run` with the names of its classes, as `with_class_names`, and the pictures of what it starts from.

    Raises UserError, as `with_processor` too.
    """
    return with_class_names(with_processor(run), classes)


def with_class_names(run: Run, classes: Callable[[Any], Sequence[str]]) -> Run:
    """Return `run` with the names of its classes: those of --class-names, or of `classes` of its configuration.

    So they are recorded with it, and known where its pictures are not. More than the model has are left out of it.
    Raises UserError for too many of --class-names, or one of them twice, and where a run goes on whose classes are
    others by now.
    """
    config = run.config
    most, own = config.model.num_classes, config.data.class_names
    if len(own) > most:
        raise UserError(
            f"--class-names: {few(own)}: {len(own)} names, and the model has {most} classes: give --num-classes"
        )
    if len({*own}) < len(own):
        raise UserError(f"--class-names: {few(own)}: give each once")
    names = own or tuple(classes(config))
    if 0 < len(names) < most:
        nameless = f"{most - len(names)} of the model's {most} have no name, and learn to be none"
        announce(f"classes: {nameless}: --num-classes {len(names)} leaves them out")
    data = replace(config.data, class_names=names if len(names) <= most else ())
    run = replace(run, config=replace(config, data=data))
    check_names(run)
    return run


def classes_of(data: Any) -> list[str]:
    """Return the names of the classes of the section `data`: of its folders, or of the labels in its tables.

    [] where it has neither, and where a folder is not there any more, which it says. Raises UserError.
    """
    if data.image_folder and data.image_data:
        raise UserError("--image-folder: give it, or --image-data, and not both")
    if data.image_data:
        return _names_of_rows([label for _, label, _ in read_rows(data.image_data)])
    return [path.name for path in class_folders(data.image_folder)] if data.image_folder else []


def labelled_pictures(data: Any, names: Sequence[str]) -> tuple[list[Path], list[int]]:
    """Return the pictures of the section `data`, in order, and the number that the class of each has in `names`.

    Raises UserError where the names are none of its classes', or in part.
    """
    if not data.image_data:
        return labelled_files(data.image_folder, names)
    rows = read_rows(data.image_data)
    there = _names_of_rows([label for _, label, _ in rows])
    named = there if any(isinstance(label, str) for _, label, _ in rows) else names
    places = number_classes(there, names, "--image-data") if named is there else range(len(names))
    labels = []
    for _, label, where in rows:
        try:
            labels.append(places[number_of(label, named, "the classes")])
        except ValueError as error:
            raise UserError(f"{where}: {error}") from None
    _say(names, labels)
    return [path for path, _, _ in rows], labels


def read_rows(tables: Sequence[str]) -> list[Any]:
    """Return what `read_tables` of tables.py yields. Raises UserError where the project has none."""
    return [*feature("tables", "data.pictures.tables", "--image-data").read_tables(tables, FIELD)]


def split_labelled(
    pictures: Sequence[Path | np.ndarray], labels: Sequence[int], data: Any, model: Any, seed: int
) -> tuple[Sequence[Any], Labelled]:
    """Return the training examples, see `shift_pictures`, and the held-out ones, as they are.

    data: its field `held_out` is the share that is never trained on.
    model: has image_size, num_channels and num_classes. Raises UserError for labels that it has not.
    """
    if len(pictures) < 2:
        raise UserError(f"there are {len(pictures)} pictures: give two at least")
    if max(labels) >= model.num_classes:
        raise UserError(
            f"{max(labels) + 1} classes, and the model has {model.num_classes}: give --num-classes"
        )
    size, channels, framing = model.image_size, model.num_channels, framing_of(data, model)
    flag = "--image-data" if getattr(data, "image_data", ()) else "--image-folder"
    check_pictures(pictures, lambda path: read_picture(path, size, channels, framing), flag)
    order = np.random.default_rng(seed).permutation(len(pictures)).tolist()
    held_out = count_held_out(len(order), data.held_out)
    say_copies(pictures, labels, order[:held_out])

    def some(indices: list[int]) -> Labelled:
        parts = [pictures[i] for i in indices], [labels[i] for i in indices]
        return Labelled(*parts, size, channels, framing)

    train = some(order[held_out:])
    moved = shift_pictures(train, data.shift, seed) if data.shift else train
    return moved, some(order[:held_out])


def class_folders(folder: str) -> list[Path]:
    """Return the folders of the classes in `folder`, by name; none where it is not there any more, which it says.

    Those that begin with a dot are of other programs, such as .ipynb_checkpoints. Raises UserError for those of the
    parts of a data set.
    """
    if not Path(folder).is_dir():
        announce(f"--image-folder: {folder} is not here, so that its classes have no names")
        return []
    own = (path for path in Path(folder).iterdir() if not path.name.startswith("."))
    folders = sorted(path for path in own if path.is_dir())
    names = {path.name.lower() for path in folders}
    if names and names <= PARTS and any(one.is_dir() for path in folders for one in path.iterdir()):
        raise UserError(
            f"--image-folder: {folder} has {few(path.name for path in folders)}, which are parts of a data set, and no "
            f"classes: give one of them, {folders[0]}"
        )
    return folders


def labelled_files(folder: str, names: Sequence[str] = ()) -> tuple[list[Path], list[int]]:
    """Return the pictures in the folders of the classes, at any depth, and the number of the class of each.

    names: of the classes, by number; none: the folders', in order. What is left out is said. Raises UserError.
    """
    if not Path(folder).is_dir():
        raise UserError(f"--image-folder: {folder} is not a folder")
    folders = class_folders(folder)
    parts = [files_in(within) for within in folders]
    places = number_classes([path.name for path in folders], names, "--image-folder")
    pairs = [(path, at) for at, (own, _) in zip(places, parts, strict=True) for path in own]
    if len(pairs) < 2:
        raise UserError(
            f"--image-folder: {folder} has {len(pairs)} pictures in {len(folders)} folders of classes: give a folder "
            f"with some of {', '.join(FILES)} for each class"
        )
    rest = [path for _, rest in parts for path in rest]
    others, links = ([p for p in rest if p.is_dir() == is_dir] for is_dir in (False, True))
    loose = [path for path in Path(folder).iterdir() if path.suffix.lower() in FILES]
    for left, why in (
        (others, "of no kind that is read"),
        (links, "links to folders"),
        (loose, "in no folder of a class"),
    ):
        if left:
            shown = few((path.relative_to(folder) for path in sorted(left)), 3)
            announce(f"--image-folder: {len(left)} left out, {why}: {shown}")
    labels = [label for _, label in pairs]
    _say(names or [path.name for path in folders], labels)
    return [path for path, _ in pairs], labels


def number_classes(there: Sequence[str], names: Sequence[str], flag: str) -> list[int]:
    """Return the number of each class of pictures among `names`: by its name.

    Where all names are others, and as many, they are those of the classes in order, which is said. Raises UserError
    where only some are.
    """
    absent = [name for name in there if name not in names]
    if not names or (len(absent) == len(there) == len(names)):
        if names:
            pairs = few(f"{one} is {name}" for one, name in zip(there, names, strict=True))
            announce(f"--class-names: other names of the classes, in order: {pairs}")
        return [*range(len(there))]
    if absent:
        raise UserError(
            f"{flag}: its classes {few(absent)} are none of {few(names)}: leave them out, or train with --class-names "
            "that has them all, or other names for all of them, in order"
        )
    return [names.index(name) for name in there]


def _names_of_rows(labels: Sequence[Any]) -> list[str]:
    """Return the names of the classes of rows: their texts, or, where they are numbers, all of 0 to the largest."""
    texts = {label for label in labels if isinstance(label, str)}
    numbers = [label for label in labels if type(label) is int]
    if texts and numbers:
        both = f"{sorted(texts)[0]!r} and {numbers[0]}"
        raise UserError(f"--image-data: its labels are texts and numbers, {both}: give one kind")
    if numbers:
        return [str(number) for number in range(max(numbers) + 1)]
    return sorted(texts)


def _say(names: Sequence[str], labels: Sequence[int]) -> None:
    """Print which classes have one picture, or none."""
    count = Counter(labels)
    say_rare({name: count[number] for number, name in enumerate(names)})
