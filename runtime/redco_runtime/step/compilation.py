"""The compilation cache: what XLA compiles stays on disk, so that a restart compiles nothing."""

import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax

FOLDER = "jax_compilation_cache_dir"
SECONDS = "jax_persistent_cache_min_compile_time_secs"
# JAX warns so, and goes on without: (reading or writing, name of the program, why).
FAULT = re.compile(r"Error (\w+) persistent compilation cache entry for '(.*?)': (.*)", re.DOTALL)


def keep_programs(folder: Path) -> None:
    """Make JAX keep all that it compiles in `folder`, and look there first.

    What a user says of it by JAX's own variables holds: JAX_COMPILATION_CACHE_DIR names another
    folder, JAX_ENABLE_COMPILATION_CACHE=false keeps nothing. A disk that refuses costs one line.
    """
    if getattr(jax.config, FOLDER) is None:
        jax.config.update(FOLDER, str(folder.absolute()))
        # JAX asks for 1 s of compiling. Of the 16 programs of a tiny decoder on 4 virtual CPU devices 12
        # take less: 1.5 s together, which their files, 60 kB, save.
        if SECONDS.upper() not in os.environ:
            jax.config.update(SECONDS, 0)
    warnings.showwarning = partial(_show, warnings.showwarning, set())


def _show(show: Callable[..., None], reported: set[str], message: Any, *place: Any) -> None:
    """Show a warning, as warnings.showwarning; of the cache's own the first, in one line.

    An entry that cannot be read goes: JAX would leave it, and compile that program at each start.
    """
    fault = FAULT.match(str(message))
    if fault is None:
        show(message, *place)
    elif jax.process_index() == 0:  # the only one that writes; others may read what is half written
        act, program, why = fault.groups()
        folder = Path(getattr(jax.config, FOLDER))
        if act == "reading":
            why += _remove(folder, program)
        if act not in reported:
            reported.add(act)
            text = f"note: {folder}: {act} {program}: {why}; it is compiled, and the run goes on"
            print(" ".join(text.split()), file=sys.stderr)


def _remove(folder: Path, program: str) -> str:
    """Remove the entries of a program. Returns why one stays, or ""."""
    try:
        for path in folder.glob(f"{program}-*-cache"):
            path.unlink(missing_ok=True)
    except OSError as error:
        return f", and removing it: {error}"
    return ""
