"""Names of classes: what the numbers mean that a model gives, compared by name wherever two tables of them meet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base.messages import UserError, few, print_once
from ..base.class_names import labels_in
from ..base.hf_files import ADAPTER, WEIGHTS, Stored, read_json
from ..base.tensors import Tensor
from ..run.record import FILE, Run, read

# Of a configuration: the section and the field that have the names, by number.
FIELDS = (("train", "labels"), ("data", "class_names"))


def names_in(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the classes of a configuration, as run.json has it; () where it names none."""
    tables = (config.get(section, {}).get(field) for section, field in FIELDS)
    return next((tuple(table) for table in tables if table and isinstance(table, list | tuple)), ())


def names_of(config: Any) -> tuple[str, ...]:
    """Return those of a configuration."""
    return names_in({name: vars(getattr(config, name, object)) for name, _ in FIELDS})


def check_names(run: Run) -> None:
    """Raise UserError where a run goes on whose classes have other names by now, or another order."""
    path = run.workdir / FILE
    before = names_in(read(path)["config"]) if path.exists() else ()
    now = names_of(run.config)
    if before and now and before != now:
        raise UserError(
            f"--workdir: the classes of the run in {run.workdir} are {few(before)}, and here they are {few(now)}: give "
            f"back those, in their order, or choose another --workdir, where --init {run.workdir} takes them by name"
        )


def names_there(source: Path) -> tuple[str, ...]:
    """Return the names of the classes of a checkpoint: a folder of Hugging Face, an adapter's, or one of a run.

    () where nothing names them, or by their numbers alone. Raises UserError for one that is there twice.
    """
    runs = [folder / FILE for folder in (source, source.parent, source.parent.parent)]
    if (source / ADAPTER).is_file():
        names = labels_in(source / WEIGHTS)
    elif (config := source / "config.json").is_file():
        table = read_json(config).get("id2label") or {}
        names = tuple(str(table.get(str(i))) for i in range(len(table)))
        names = () if names == tuple(f"LABEL_{i}" for i in range(len(names))) else names
    else:
        path = next((path for path in runs if path.is_file()), None)
        names = names_in(read(path)["config"]) if path else ()
    if len({*names}) < len(names):
        raise UserError(f"--init: {source} names a class twice: {few(names)}: mend its id2label")
    return names


def moved_rows(config: Any, source: Path) -> list[int]:
    """Return for each class of `config` the row that it has in the head of a checkpoint, -1 for none.

    [] where all are in their places, or one of the two names none: then they are taken by number.
    """
    ours, theirs = names_of(config), names_there(source)
    rows = [theirs.index(name) if name in theirs else -1 for name in ours]
    return [] if not theirs or ours == theirs else rows


@dataclass(frozen=True)
class Heads:
    """What a checkpoint has of parameters with a column for each class, where its classes have other places.

    there: path -> (..., K), of its K classes. rows: as of `moved_rows`.
    """

    there: Mapping[str, Any]
    rows: Sequence[int]

    def fill(self, arrays: dict[str, jax.Array], config: Any, source: Path) -> list[str]:
        """Put the columns of `there` into these parameters of `arrays`, by name, and say which.

        Returns the paths of those that have one at least.
        """
        for path, there in self.there.items():
            arrays[path] = take_columns(there, arrays[path], self.rows)
        if self.there:
            print_once(f"classes of {source}: {_say(names_of(config), names_there(source))}")
        return [*self.there] if max(self.rows, default=-1) >= 0 else []


def paths_by_class(weights: Any, config: Any) -> set[str]:
    """Return the paths of parameters with a column for each class; none where `config` names no classes.

    weights: as of weights.py.
    """
    table = weights.tensors(config.model) if names_of(config) else {}
    return {path for path, tensor in table.items() if tensor.classes}


def read_heads(stored: Stored, table: Mapping[str, Tensor], config: Any) -> Heads:
    """Return those of a checkpoint of Hugging Face. table: as of weights.py."""
    rows, names = moved_rows(config, stored.path), names_of(config)
    own = {p: t for p, t in table.items() if t.classes and t.name in stored.shapes}
    counts = {stored.shapes[t.name][t.order[-1] if t.order else -1] for t in own.values()}
    if not rows:
        own = {}
    if len(names) in counts and not names_there(stored.path):
        print_once(
            f"classes of {stored.path}: they have no names, and are taken by number: {few(names)}"
        )
    return Heads(
        {p: stored.read(t.name, ()).transpose(t.order or None) for p, t in own.items()}, rows
    )


def take_columns(there: Any, initial: jax.Array, rows: Sequence[int]) -> jax.Array:
    """Return `initial`, (..., C), with columns of `there`, (..., K), by the numbers of `rows`; -1: its own."""

    def take(there: jax.Array, initial: jax.Array) -> jax.Array:
        at_C = np.pad(np.array(rows), (0, initial.shape[-1] - len(rows)), constant_values=-1)
        own = jnp.take(there, np.maximum(at_C, 0), axis=-1).astype(initial.dtype)
        sizes = zip(own.shape, initial.shape, strict=True)
        own = jnp.pad(own, [(0, more - size) for size, more in sizes])
        return jnp.where(at_C >= 0, own, initial)

    return jax.jit(take, out_shardings=initial.sharding)(there, initial)


def _say(ours: Sequence[str], theirs: Sequence[str]) -> str:
    parts = {
        "taken by name": [name for name in ours if name in theirs],
        "as in a new model": [name for name in ours if name not in theirs],
        "left out": [name for name in theirs if name not in ours],
    }
    return "; ".join(f"{what}: {few(names)}" for what, names in parts.items() if names)
