"""What the user asked for. It comes from flags or from redco.toml; both are input and checked alike."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from redco_new.request import own_class
from redco_new.errors import RedcoError
from redco_new.request.checks import (
    CHECKS,
    COMPUTE,
    DEVICE,
    DTYPES,
    HEADS,
    RARE,
    check_truth,
    check_word,
)
from redco_new.request.dropout import CONFIG_RATES
from redco_new.request.features import check_features
from redco_new.request.launch import DEFAULT_LAUNCH, LAUNCH_FILES, LaunchFile
from redco_new.request.license import copyright_of
from redco_new.request.lora import Lora
from redco_new.request.mesh import check_mesh, parse_mesh
from redco_new.request.model import check_dtype_of, read_model, read_own
from redco_new.request.names import check_name, dns_label, package_name
from redco_new.request.own_class import CLASS, TABLES, OwnClass
from redco_new.request.toml import read_toml, value_text


@dataclass(frozen=True)
class Request:
    """One project.

    model: as --model has it; "" for the one that the recipe brings.
    mesh: axis -> devices, all of AXES; `data` may be REST.
    size: a size of the family, by name; "" for its default.
    recipe: what is trained; "" for the family's default.
    loss: by which one, of a recipe that has several; "" for its default.
    dtype: of the compute.
    products: of PRODUCTS, what its layers multiply in.
    zero: 1 to split what the optimizer keeps over `data` too.
    optimizer_memory: of MEMORIES, where what the optimizer keeps lies between steps.
    gradients_across: of CROSSINGS, in what gradients go over `data`, once a step; COMPUTE: in that dtype, added up in it.
    context_attention: of ATTENTIONS, what devices of `context` have in attention: heads, or positions in a ring.
    sequence_parallel: whether `model` splits the sequence where it splits nothing else.
    sequence_length: tokens of an example; 0 for as many as the model says.
    features: what it has beside, of FEATURES.
    lora: the adapter that is trained in the place of the model; None where the model is.
    dropout: the rate by which a model of a family drops in training, or CONFIG_RATES.
    launch: the launchers that it has files for, of LAUNCH_FILES.
    via: "torch" where model.py is printed from a class of PyTorch; "" otherwise.
    checkpoint: of whose class it is printed, which has its tokenizer and weights; "" for none.
    license: its licence, by SPDX's name; "" for none.
    copyright: since when and by whom it is held; "" without a licence.
    own: what the user says of their class, if the model is one.
    folder: that of the project, which paths are relative to.
    recorded: the model, as a manifest has it.
    printed: name -> text of the files of the package that were printed once, in a project that has them.
    """

    name: str
    model: str
    mesh: Mapping[str, int]
    size: str = ""
    recipe: str = ""
    loss: str = ""
    dtype: str = "bfloat16"
    products: str = COMPUTE
    zero: int = 0
    optimizer_memory: str = DEVICE
    gradients_across: str = COMPUTE
    context_attention: str = HEADS
    sequence_parallel: bool = False
    sequence_length: int = 0
    features: tuple[str, ...] = ()
    lora: Lora | None = None
    dropout: float | str = CONFIG_RATES
    launch: tuple[str, ...] = DEFAULT_LAUNCH
    via: str = ""
    checkpoint: str = ""
    license: str = ""
    copyright: str = ""
    own: OwnClass | None = None
    folder: Path = field(default=Path(), compare=False)
    recorded: Mapping[str, Any] | None = field(default=None, compare=False)
    printed: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_family(self) -> bool:
        """Whether the model is that of a family, and not a class of its own."""
        return bool(self.model) and self.own is None

    @property
    def of_transformers(self) -> bool:
        """Whether the model is a class of transformers, which a config makes."""
        return self.model.startswith("transformers:")

    @property
    def model_name(self) -> str:
        """The model, for people."""
        return self.model or f"the model of {self.recipe}"

    @property
    def package(self) -> str:
        return package_name(self.name)

    @property
    def label(self) -> str:
        return dns_label(self.name)

    @property
    def launch_files(self) -> list[LaunchFile]:
        """The files of launch/."""
        return [LAUNCH_FILES[name] for name in self.launch]

    @property
    def devices(self) -> int:
        """The fewest devices that the mesh fits on."""
        return math.prod(max(size, 1) for size in self.mesh.values())

    @classmethod
    def from_flags(
        cls,
        name: str,
        model: str | None = None,
        *,
        shards: str | None = None,
        mesh: str | None = None,
        config: str | None = None,
        example: str | None = None,
        folder: Path = Path(),
        **settings: Any,
    ) -> "Request":
        """Check flags as they were typed. Raises RedcoError, which names the flag.

        config, example: what the user says of their own class.
        folder: that of the project, which the paths in a request are relative to.
        settings: those of CHECKS.
        """
        if model is None and settings.get("recipe") is None:
            raise RedcoError("command line", "Missing option '--model'", "see redco-new --help")
        model, own = read_model(model, config, example, folder)
        check_dtype_of(model, own, settings.get("dtype"))
        return cls(
            name=check_name("NAME", name),
            model=model,
            own=own,
            folder=folder,
            mesh=parse_mesh(shards, mesh),
            **_with_copyright(_check_settings(settings), name, ""),
        )

    def with_flags(
        self,
        model: str | None = None,
        *,
        shards: str | None = None,
        mesh: str | None = None,
        config: str | None = None,
        example: str | None = None,
        **settings: Any,
    ) -> "Request":
        """Return this request with further flags, as they were typed; checked as `from_flags` does.

        `mesh` gives all axes anew, `shards` alone that of `model`; features are added. Another model has the size and the
        recipe that the flags say, or its own.
        """
        changes, own = _check_settings(settings), self.own
        changes = _with_copyright(changes, self.name, self.copyright)
        if features := changes.get("features"):
            changes["features"] = check_features("--features", [*self.features, *features])
        if shards is not None or mesh is not None:
            changes["mesh"] = parse_mesh(shards, mesh, self.mesh if mesh is None else {})
        if changes.get("recipe", self.recipe) != self.recipe:
            changes = {"loss": "", **changes}
        if model is None:
            model = self.model
            if config or example:
                own = read_own(model, config, example, self.folder)
        else:
            model, new_own = read_model(model, config, example, self.folder)
            if model != self.model:
                changes = {
                    "size": "",
                    "recipe": "",
                    "loss": "",
                    "via": "",
                    "checkpoint": "",
                    **changes,
                }
                changes |= {"recorded": None, "printed": {}}
            if model != self.model or config or example:
                own = new_own
        check_dtype_of(model, own, settings.get("dtype"))
        if not own_class.has_dtype(model, own):
            changes["dtype"] = DTYPES[0]  # it computes in what its code says
        return replace(self, **changes, model=model, own=own)

    @classmethod
    def from_toml(cls, text: str, source: str = "redco.toml", folder: Path = Path()) -> "Request":
        """Check the text of a redco.toml. Raises RedcoError, which names `source` and the key.

        folder: that of the project, which the paths in it are relative to.
        """
        table = read_toml(source, text)
        if "muon" in table:  # a project made before there were features
            muon = check_truth(f"{source}: muon", table.pop("muon"))
            table.setdefault("features", ["muon"] if muon else [])
        keys = {f.name for f in fields(cls)} - {"own", "folder", "recorded", "printed"}
        if isinstance(table.get("model"), dict):
            keys |= {*TABLES, "example"}
        if unknown := sorted(set(table) - keys):
            what = f"unknown key {unknown[0]!r}"
            raise RedcoError(source, what, f"the keys are {', '.join(sorted(keys))}")
        for key in ("name", "model"):
            if key not in table and (key == "name" or "recipe" not in table):
                raise RedcoError(source, f"the key {key!r} is missing", f'add {key} = "..."')
        model, own = table.get("model", ""), None
        if isinstance(model, dict):
            own = own_class.from_toml(source, table)
            model = model[CLASS]
            if "dtype" in table and not own_class.has_dtype(model, own):
                what = f"{model} computes in what its own code says"
                raise RedcoError(f"{source}: dtype", what, "leave it out, or give it in [model]")
        if "model" not in table and "dtype" in table:
            what = "the model of a recipe computes in what its own code says"
            raise RedcoError(f"{source}: dtype", what, "leave it out, or write it in model.py")
        if table.get("license") and not table.get("copyright"):
            what = "LICENSE names who holds the copyright, and nobody is said to"
            raise RedcoError(f"{source}: license", what, 'add copyright = "2026 Ada Lovelace"')
        return cls(
            name=check_name(f"{source}: name", check_word(f"{source}: name", table["name"])),
            model=check_word(f"{source}: model", model) if "model" in table else "",
            own=own,
            folder=folder,
            mesh=check_mesh(f"{source}: mesh", table.get("mesh", {})),
            **{k: check(f"{source}: {k}", table[k]) for k, check in CHECKS.items() if k in table},
        )

    def to_toml(self) -> str:
        """Return the text of redco.toml; `from_toml` gives an equal request back."""
        values = {
            f.name: getattr(self, f.name) for f in fields(self) if f.compare and f.name != "mesh"
        }
        values["lora"] = self.lora.to_dict() if self.lora else ""
        own, tables = values.pop("own"), []
        if self.dropout == CONFIG_RATES and "/" not in self.model:
            del values["dropout"]  # which a size that has a name does not have
        if not own_class.has_dtype(self.model, self.own):
            del values["dtype"]  # an own class computes in what its code says
        for name, usual in RARE.items():
            if values[name] == usual:
                del values[name]
        if own:
            del values["model"]
            values |= {"example": own.example, "output": own.output, "method": own.method}
            tables = [own_class.to_toml(self.model, own), ""]
        lines = [f"{k} = {value_text(v)}" for k, v in values.items() if v != ""]
        sizes = [f"{axis} = {size}" for axis, size in self.mesh.items()]
        return "\n".join([*lines, "", *tables, "[mesh]", *sizes, ""])

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain data, for the manifest."""
        return tomllib.loads(self.to_toml())


def _check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: CHECKS[k](f"--{k.replace('_', '-')}", value)
        for k, value in settings.items()
        if value is not None
    }


def _with_copyright(changes: dict[str, Any], name: str, copyright: str) -> dict[str, Any]:
    """Return changes of a request, with who holds the copyright where they have a licence, and nobody where they end it.

    copyright: of the project so far.
    """
    if "license" not in changes:
        return changes
    return {**changes, "copyright": changes["license"] and (copyright or copyright_of(name))}
