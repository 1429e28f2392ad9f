"""What the user asked for. It comes from flags or from redco.toml; both are input and checked alike."""

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from redco_new import own_class
from redco_new.errors import RedcoError
from redco_new.names import check_name, package_name
from redco_new.own_class import CLASS, TABLES, OwnClass
from redco_new.toml import value_text

AXES = ("data", "fsdp", "expert", "model")
DTYPES = ("bfloat16", "float32")
REST = -1  # as the size of `data`: the devices that the other axes leave
STAGES = (0, 1)  # of ZeRO; the third is the axis fsdp
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}")
MESH_EXAMPLE = "give for example --mesh data=2,fsdp=1,model=4"


@dataclass(frozen=True)
class Request:
    """One project.

    mesh: axis -> devices, all of AXES; `data` may be REST.  size: of a family's, by name.
    recipe: what is trained.  dtype: of the compute.
    zero: 1 to split what the optimizer keeps over `data` too.
    sequence_parallel: whether `model` splits the sequence where it splits nothing else.
    own: what is told of a class of the user's own, if the model is one.
    folder: that of the project, which paths are relative to.
    """

    name: str
    model: str
    mesh: Mapping[str, int]
    size: str = ""
    recipe: str = ""
    dtype: str = "bfloat16"
    zero: int = 0
    sequence_parallel: bool = False
    own: OwnClass | None = None
    folder: Path = field(default=Path(), compare=False)

    @property
    def package(self) -> str:
        return package_name(self.name)

    @property
    def devices(self) -> int:
        """The fewest devices that the mesh fits on."""
        return math.prod(max(size, 1) for size in self.mesh.values())

    @classmethod
    def from_flags(
        cls,
        name: str,
        model: str,
        *,
        shards: str | None = None,
        mesh: str | None = None,
        config: str | None = None,
        example: str | None = None,
        folder: Path = Path(),
        **settings: Any,
    ) -> "Request":
        """Check flags as they were typed; settings: of CHECKS. Raises RedcoError, which names the flag.

        config, example: what is told of an own class.  folder: that of the project, which the paths
        in a request are relative to.
        """
        model, own = _check_word("--model", model), None
        if own_class.is_own(model):
            if settings.get("dtype") is not None:
                what = f"{model} computes in what its own code says"
                raise RedcoError("--dtype", what, "leave it out, or give it in [model]")
            model = own_class.relative_to(folder, own_class.check_reference("--model", model))
            own = own_class.from_flags(config, example, folder)
        elif is_folder(model):
            model = inside(folder, model)
        if not own and (
            given := [f"--{k}" for k, v in {"config": config, "example": example}.items() if v]
        ):
            what = f"{model} is no class of your own, which it is for"
            raise RedcoError(given[0], what, "leave it out, or give --model FILE.py:NAME")
        return cls(
            name=check_name("NAME", name),
            model=model,
            own=own,
            folder=folder,
            mesh=parse_mesh(shards, mesh),
            **{
                k: CHECKS[k](f"--{k.replace('_', '-')}", value)
                for k, value in settings.items()
                if value is not None
            },
        )

    @classmethod
    def from_toml(cls, text: str, source: str = "redco.toml", folder: Path = Path()) -> "Request":
        """Check the text of a redco.toml. Raises RedcoError, which names `source` and the key.

        folder: that of the project, which the paths in it are relative to.
        """
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise RedcoError(source, f"not TOML: {error}", "mend that line") from error
        known = {f.name for f in fields(cls)} - {"own", "folder"}
        if isinstance(table.get("model"), dict):
            known |= {*TABLES, "example"}
        if unknown := sorted(set(table) - known):
            what = f"unknown key {unknown[0]!r}"
            raise RedcoError(source, what, f"the keys are {', '.join(sorted(known))}")
        for key in ("name", "model"):
            if key not in table:
                raise RedcoError(source, f"the key {key!r} is missing", f'add {key} = "..."')
        model, own = table["model"], None
        if isinstance(model, dict):
            own = own_class.from_toml(source, table)
            model = model[CLASS]
        return cls(
            name=check_name(f"{source}: name", _check_word(f"{source}: name", table["name"])),
            model=_check_word(f"{source}: model", model),
            own=own,
            folder=folder,
            mesh=_check_mesh(f"{source}: mesh", table.get("mesh", {})),
            **{k: check(f"{source}: {k}", table[k]) for k, check in CHECKS.items() if k in table},
        )

    def to_toml(self) -> str:
        """The keys of redco.toml; `from_toml` gives an equal request back."""
        values = {
            f.name: getattr(self, f.name) for f in fields(self) if f.compare and f.name != "mesh"
        }
        own, tables = values.pop("own"), []
        if own:
            del values["model"], values["dtype"]  # an own class computes in what its code says
            values |= {"example": own.example, "output": own.output}
            tables = [own_class.to_toml(self.model, own), ""]
        lines = [f"{k} = {value_text(v)}" for k, v in values.items() if v != ""]
        sizes = [f"{axis} = {self.mesh[axis]}" for axis in AXES]
        return "\n".join([*lines, "", *tables, "[mesh]", *sizes, ""])

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for the manifest."""
        return tomllib.loads(self.to_toml())


def is_folder(model: str) -> bool:
    """Whether --model is the path of a checkpoint, rather than a family or an id of the hub."""
    return model.startswith((".", "/", "~")) or ("/" in model and Path(model).is_dir())


def inside(folder: Path, path: str) -> str:
    """A path as typed in the working folder, as it is typed in `folder`: ../checkpoint."""
    found = own_class.path_from(folder, os.path.expanduser(path))
    return found if found.startswith(".") else f"./{found}"


def parse_mesh(shards: str | None, mesh: str | None) -> dict[str, int]:
    """The mesh that `--shards 4` and `--mesh data=2,fsdp=1,model=4` ask for, each as it was typed.

    `--shards` is the size of `model`. An axis that neither names has size 1, but `data` takes the
    devices that are left. Raises RedcoError if a size is not a size or the two flags contradict.
    """
    sizes = {} if mesh is None else _parse_axes(mesh)
    if shards is not None:
        if not WHOLE_NUMBER.fullmatch(shards) or int(shards) < 1:
            what = f"{shards!r} is not a number of shards: 1 or more"
            raise RedcoError("--shards", what, "give for example --shards 4")
        if sizes.get("model", int(shards)) != int(shards):
            what = f"{shards} contradicts model={sizes['model']} of --mesh"
            raise RedcoError("--shards", what, "make them equal, or give only one of them")
        sizes["model"] = int(shards)
    return _check_mesh("--mesh", sizes)


def _parse_axes(text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in text.split(","):
        axis, equals, size = part.partition("=")
        if not equals or not WHOLE_NUMBER.fullmatch(size):
            raise RedcoError("--mesh", f"{part!r} is not AXIS=SIZE", MESH_EXAMPLE)
        if axis in sizes:
            raise RedcoError("--mesh", f"the axis {axis!r} is given twice", "give it once")
        sizes[axis] = int(size)
    return sizes


def _check_mesh(where: str, sizes: Any) -> dict[str, int]:
    """`sizes` with all of AXES, in their order. Raises RedcoError for what is no axis or no size."""
    if not isinstance(sizes, dict):
        raise RedcoError(where, f"{sizes!r} is not a table", "write [mesh] with an axis a line")
    for axis, size in sizes.items():
        if axis not in AXES:
            raise RedcoError(where, f"unknown axis {axis!r}", f"the axes are {', '.join(AXES)}")
        rest = axis == "data" and size == REST
        if type(size) is not int or (size < 1 and not rest):
            todo = "give 1 or more (data may be -1: the devices that are left)"
            raise RedcoError(where, f"{axis}={size} is not a size", todo)
    return {a: sizes.get(a, REST if a == "data" else 1) for a in AXES}


def _check_word(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise RedcoError(where, f"{value!r} is not a name", "give one, in one line of text")
    return value


def _check_dtype(where: str, value: Any) -> str:
    if value not in DTYPES:
        raise RedcoError(where, f"unknown dtype {value!r}", f"choose one of {', '.join(DTYPES)}")
    return value


def _check_zero(where: str, value: Any) -> int:
    if type(value) is not int or value not in STAGES:
        todo = "give 0 or 1; stage 3, which splits the parameters too, is --mesh fsdp=N"
        raise RedcoError(where, f"{value!r} is not a stage of ZeRO that redco has", todo)
    return value


def _check_truth(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RedcoError(where, f"{value!r} is neither true nor false", "give one of them")
    return value


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "size": _check_word,
    "recipe": _check_word,
    "dtype": _check_dtype,
    "zero": _check_zero,
    "sequence_parallel": _check_truth,
}
