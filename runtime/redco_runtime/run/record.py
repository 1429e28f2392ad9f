"""What a work folder was trained with: its configuration, mesh and devices, kept as run.json."""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jax

from ..base.contracts import Config
from ..base.messages import UserError, few, show, writing
from ..base.files import is_bucket, parse_json

FILE = "run.json"
SETTINGS = "settings.toml"
LAST, BEST = "checkpoints", "checkpoints-best"  # folders
RECORDED = ("config", "mesh", "virtual_devices", "init")
LORA = "lora"  # the section of an adapter, whose settings were among those of the model
# Sections that say what the parameters of a model are, and their settings that do not.
MODEL = ("model", LORA)
PLACING = ("kv_copies", "remat", "router_loss_coef")
# Settings, by section and field, that a run keeps -> what they were before they were fields.
FORMER = {
    ("data", "subword"): "last",
    ("data", "resize"): (),
    ("data", "resample"): "bicubic",
    ("data", "mean"): (0.5,),
    ("data", "std"): (0.5,),
    ("train", "deviation"): "population",
    ("train", "action_limit"): 2.0,
}


Section = TypeVar("Section")


@dataclass(frozen=True)
class Run:
    """One training run."""

    workdir: Path  # folder of its checkpoints and metrics
    config: Config
    mesh: dict[str, int]  # axis name -> size
    virtual_devices: int | None  # CPU devices in this process; None for the real ones
    init: str | None = None  # what it starts from, a run or safetensors; None for random parameters
    settings: str = dataclasses.field(default="", compare=False)  # its command's, as TOML
    preview: int = dataclasses.field(default=0, compare=False)  # rows that are only shown

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.workdir / LAST

    @property
    def best(self) -> Path:
        """The folder with a folder for each score, of the checkpoint that is the best by it."""
        return self.workdir / BEST

    @property
    def cache(self) -> Path:
        """The folder of what JAX has compiled for it."""
        if is_bucket(self.workdir):  # JAX locks its files
            return Path("~/.cache/redco/compiled").expanduser()
        return self.workdir / "compiled"

    def checkpoints_by(self, score: str | None) -> Path:
        """Return the folder of the best checkpoint by a score, or that of the last ones. Raises UserError."""
        if not score:
            return self.checkpoints
        if not (self.best / score).is_dir():
            records = (*self.best.glob("*.json"), *self.best.glob("*/*.json"))  # of a/b too
            scores = few(sorted(str(x.relative_to(self.best).with_suffix("")) for x in records))
            todo = f"choose {scores}" if scores else "leave --best out"
            raise UserError(f"--best: {self.workdir} has no best checkpoint by {score!r}: {todo}")
        return self.best / score

    def record(self) -> dict[str, Any]:
        """Return what run.json holds."""
        return {name: dataclasses.asdict(self)[name] for name in RECORDED}

    @property
    def facts(self) -> dict[str, str]:
        """What must be the same in all processes, by name: each setting, and the mesh."""
        record = self.record()
        sections = record.pop("config")
        settings = {f"{s}.{name}": v for s, part in sections.items() for name, v in part.items()}
        return {name: str(value) for name, value in (settings | record).items()}

    def check_same_model(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (what run.json is to hold, what it holds). Raises UserError where that is of another model."""
        path, record = self.workdir / FILE, json.loads(json.dumps(self.record()))
        recorded = read(path) if path.exists() else record
        both = (with_former(type(self.config), one["config"]) for one in (recorded, record))
        before, now = ({k: v for x in MODEL for k, v in one.get(x, {}).items()} for one in both)
        changed = [
            f"{name} was {before.get(name)} and is {now.get(name)}"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name) and not is_placing(name)
        ]
        if changed:
            raise UserError(
                f"--workdir: {self.workdir} holds a run of another model: {'; '.join(changed)}; "
                "choose the model of that run, or another --workdir, where --init "
                f"{self.workdir} starts from its parameters"
            )
        return record, recorded

    def check(self, begun: bool = False) -> dict[str, Any]:
        """Return what run.json is to hold. Raises UserError where another model was trained here.

        begun: it has a checkpoint, so that what it started from stays as it was recorded.
        """
        record, recorded = self.check_same_model()
        if begun:
            if self.init not in (None, recorded["init"]):
                raise UserError(
                    f"--init: the run in {self.workdir} has started, from "
                    f"{recorded['init'] or 'random parameters'}: leave --init out to go on with it, "
                    "or choose another --workdir"
                )
            record["init"] = recorded["init"]
        return record

    def save(self, begun: bool = False) -> None:
        """Write run.json, by process 0. Raises UserError as `check`."""
        path, record = self.workdir / FILE, self.check(begun)
        if jax.process_index():  # which may see what process 0 writes meanwhile: its own record
            return
        with writing(path):
            self.workdir.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(record, indent=2) + "\n")
            temporary.replace(path)
            if self.settings:
                path.with_name(SETTINGS).write_text(self.settings)


def load_run(workdir: Path, config_type: type[Any]) -> Run:
    """Return the run that was recorded in `workdir`. Raises UserError where there is none."""
    path = workdir / FILE
    record = read(path)
    if LORA in record["config"] and LORA not in typing.get_type_hints(config_type):
        raise UserError(
            f"{path}: it trained an adapter, and config.py has none: `redco update --lora rank=N` gives it back, or train "
            f"in another --workdir, where --init {workdir} starts from the model with the adapter in it"
        )
    try:
        sections = with_former(config_type, _readable(config_type, record["config"]))
        _place_tokenizer(config_type, sections.get("data", {}))
        others = {name: record.pop(name) for name in RECORDED[1:]}
        check_kinds(Run, others)
        return Run(workdir, decode(config_type, sections), **others)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(
            f"{path}: it does not fit config.py: {error}; give back the fields it had, or train in "
            f"another --workdir, where --init {workdir} starts from the parameters that still fit"
        ) from None


def _place_tokenizer(config_type: type[Any], data: dict[str, Any]) -> None:
    """Put the folder that config.py names in place of a recorded one of that name which is gone: all was moved together."""
    own = str(getattr(typing.get_type_hints(config_type).get("data"), "tokenizer", ""))
    folder, name = Path(own), str(data.get("tokenizer", ""))
    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        if folder.is_dir() and folder.name == Path(name).name:
            data["tokenizer"] = own
            show(f"--tokenizer: {name} is gone, and {own} of config.py is in its place")


def with_former(config_type: type[Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a recorded configuration, with the FORMER values of fields that it has not yet."""
    changed = {name: dict(section) for name, section in sections.items()}
    types = typing.get_type_hints(config_type)
    if LORA in types and LORA not in changed:
        model = changed["model"]
        own = {name: model.pop(name) for name in [*model] if name.startswith(f"{LORA}_")}
        changed |= {LORA: {"use_rslora": False} | own} if own else {}
    for (section, field), value in FORMER.items():
        if section in changed and field in typing.get_type_hints(types[section]):
            changed[section].setdefault(field, value)
    return changed


def _readable(config_type: type[Any], sections: dict[str, Any]) -> dict[str, Any]:
    """Return the sections of a run, without settings that nothing reads: those of a recipe of before.

    All of MODEL stay: they say what its parameters are.
    """
    types = typing.get_type_hints(config_type)
    return {
        name: (
            {k: v for k, v in fields.items() if k in typing.get_type_hints(types[name])}
            if name not in MODEL
            else fields
        )
        for name, fields in sections.items()
        if name in types or name in MODEL
    }


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a run.json. Raises UserError where it cannot be read."""
    try:
        record = {"init": None} | parse_json(path.read_text())
        sections = {name: dict(section) for name, section in record["config"].items()}
        return {name: record[name] for name in RECORDED} | {"config": sections}
    except FileNotFoundError:
        raise UserError(f"--workdir: no run in {path.parent}: train one there first") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"cannot be read as a run: {error!r}"
        raise UserError(f"{path}: {what}; restore or delete it") from None


def decode(kind: type[Section], values: dict[str, Any]) -> Section:
    """Return a frozen dataclass, and those in its fields, from what dataclasses.asdict made of it.

    Raises ValueError as `check_kinds`, and for a value that is none of the choices of its field.
    """
    hints = typing.get_type_hints(kind)
    fields: dict[str, Any] = {}
    check_kinds(kind, values)
    for name, value in values.items():
        if is_placing(name) and name not in hints:
            continue
        if dataclasses.is_dataclass(hints.get(name)):
            value = decode(hints[name], value)
        choices = choices_of(hints.get(name))
        if choices and value not in choices:
            raise ValueError(f"{name} {value!r} is none of {', '.join(choices)}")
        fields[name] = tuple(value) if isinstance(value, list) else value
    return kind(**fields)


def check_kinds(kind: type[Any], values: Any) -> None:
    """Raise ValueError for a value that its field of a dataclass cannot have, by its type and by its default."""
    if not isinstance(values, dict):
        raise ValueError(f"{values!r} is no table of {kind.__name__}")
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        value, like = values.get(field.name, field.default), type(field.default)
        if not (_fits(value, hints[field.name]) or type(value) is like or value is field.default):
            raise ValueError(f"{field.name} is {value!r}, and of another kind")


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value of JSON may be one of a type; those that settings do not have take any."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, parts[1]) for item in value.values())
    if kind is float:
        return type(value) in (int, float)
    return kind not in (bool, int, str, type(None)) or type(value) is kind


def is_placing(name: str) -> bool:
    """Return whether a setting of MODEL says nothing of what the parameters are: PLACING, and rates of dropout."""
    return name in PLACING or "drop" in name


def choices_of(kind: Any) -> tuple[Any, ...]:
    """Return what a setting of this type can be, if it is a Literal; else ()."""
    return typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
