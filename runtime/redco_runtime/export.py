"""Parameters as safetensors, which load without this project and without JAX."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from safetensors import SafetensorError
from safetensors.numpy import save_file

from redco_runtime.errors import UserError, writing
from redco_runtime.state import flatten


def export(params: Any, directory: Path, config: dict[str, Any]) -> None:
    """Writes `directory`/model.safetensors and `directory`/config.json: both, or nothing.

    params: pytree of arrays, sharded or not. A tensor is named by its path, joined by ".", and
    keeps its dtype. All processes call this, and process 0 writes: a new folder, or UserError.
    """
    directory, writer = Path(directory).absolute(), jax.process_index() == 0
    if multihost_utils.broadcast_one_to_all(directory.exists()):
        raise UserError(f"{directory} is there already: export to a new folder")
    tensors = {}
    for path, value in flatten(params).items():
        if isinstance(value, jax.Array) and not value.is_fully_addressable:
            value = multihost_utils.process_allgather(value, tiled=True)
        if writer:
            tensors[path.replace("/", ".")] = np.asarray(value, order="C")
    if writer:
        with writing(directory, SafetensorError, option="--out"):
            directory.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".export.") as beside:
                folder = Path(beside) / "open"  # `beside` itself is closed to other users
                folder.mkdir()
                (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
                save_file(tensors, folder / "model.safetensors")  # closed to others too
                shutil.copymode(folder / "config.json", folder / "model.safetensors")
                folder.rename(directory)
    multihost_utils.sync_global_devices(f"exported {directory.name}")
