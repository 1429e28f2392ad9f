"""What a work folder was trained with: its configuration, mesh and devices, kept as run.json."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from redco_runtime.errors import UserError

FILE = "run.json"


@dataclass(frozen=True)
class Run:
    """One training run.

    workdir: folder of its checkpoints and metrics.  config: frozen dataclasses.
    mesh: axis name -> size.  virtual_devices: CPU devices in this process, or None for the real ones.
    """

    workdir: Path
    config: Any
    mesh: dict[str, int]
    virtual_devices: int | None

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.workdir / "checkpoints"

    def record(self) -> dict[str, Any]:
        """What run.json holds."""
        config = dataclasses.asdict(self.config)
        return {"config": config, "mesh": self.mesh, "virtual_devices": self.virtual_devices}

    @property
    def fingerprint(self) -> str:
        """The same for all processes that were started with the same settings."""
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()[:16]

    def save(self) -> None:
        """Write run.json, by process 0. Raises UserError where another model was trained here."""
        if jax.process_index() != 0:
            return
        path = self.workdir / FILE
        if path.exists():
            self._check_model(read(path)["config"]["model"])
        try:
            self.workdir.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".json.tmp")
            temporary.write_text(json.dumps(self.record(), indent=2) + "\n")
            os.replace(temporary, path)
        except OSError as error:
            raise UserError(
                f"--workdir: cannot write to {self.workdir}: {error.strerror}"
            ) from None

    def _check_model(self, before: dict[str, Any]) -> None:
        now = json.loads(json.dumps(dataclasses.asdict(self.config.model)))
        changed = [
            f"{name} was {before.get(name)} and is {now.get(name)}"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name)
        ]
        if changed:
            raise UserError(
                f"--workdir: {self.workdir} holds a run of another model: {'; '.join(changed)}; "
                "choose another --workdir, or the model of that run"
            )


def load_run(workdir: Path, config_type: type) -> Run:
    """The run that was recorded in `workdir`. Raises UserError where there is none."""
    path = workdir / FILE
    if not path.exists():
        raise UserError(f"--workdir: no run in {workdir}: train one there first")
    record = read(path)
    try:
        config = decode(config_type, record["config"])
        return Run(workdir, config, record["mesh"], record["virtual_devices"])
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path}: it does not fit config.py: {error}; give back the fields it had"
        ) from None


def read(path: Path) -> dict[str, Any]:
    """The contents of a run.json. Raises UserError where it cannot be read."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}; restore or delete it") from None
    keys = {"config", "mesh", "virtual_devices"}
    if not isinstance(record, dict) or not keys <= record.keys() or "model" not in record["config"]:
        raise UserError(f"{path}: not the record of a run; restore or delete it")
    return record


def decode(kind: type, values: dict[str, Any]) -> Any:
    """A frozen dataclass, and those in its fields, from what dataclasses.asdict made of it."""
    types = typing.get_type_hints(kind)
    fields = {}
    for name, value in values.items():
        nested = dataclasses.is_dataclass(types.get(name))
        fields[name] = decode(types[name], value) if nested else value
        if isinstance(value, list):
            fields[name] = tuple(value)
    return kind(**fields)
