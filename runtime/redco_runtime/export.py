"""Parameters as safetensors, which load without this project and without JAX."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from redco_runtime.checkpoint import flatten
from redco_runtime.errors import UserError


def export(params: Any, directory: Path, config: dict[str, Any]) -> None:
    """Writes `directory`/model.safetensors and `directory`/config.json: both, or nothing.

    params: pytree of arrays, sharded or not. A tensor is named by its path, joined by ".", and
    keeps its dtype. With several processes all of them call this and process 0 writes. Raises
    UserError rather than write over what is there.
    """
    directory, writer = Path(directory).absolute(), jax.process_index() == 0
    if writer and directory.exists():
        raise UserError(f"{directory} is there already: export to a new folder")
    tensors = {}
    for path, value in flatten(params).items():
        if isinstance(value, jax.Array) and not value.is_fully_addressable:
            value = multihost_utils.process_allgather(value, tiled=True)
        if writer:
            tensors[path.replace("/", ".")] = np.asarray(value, order="C")
    if writer:
        _write(tensors, directory, config)
    multihost_utils.sync_global_devices(f"exported {directory.name}")


def _write(tensors: dict[str, np.ndarray], directory: Path, config: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as beside:
        folder = Path(beside) / directory.name  # one more, as that of tempfile is closed to others
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        folder.rename(directory)
