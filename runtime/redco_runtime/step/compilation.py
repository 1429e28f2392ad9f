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

FOLDER, ENABLED = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
SECONDS = "jax_persistent_cache_min_compile_time_secs"
ORDER = "xla_cpu_scheduler_type"  # by memory none has waited yet; as early as they can, most
# JAX warns so, and goes on without: (reading or writing, name of the program, why).
FAULT = re.compile(r"Error (\w+) persistent compilation cache entry for '(.*?)': (.*)", re.DOTALL)


def keep_programs(folder: Path, processes: int = 1) -> None:
    """Make JAX keep all that it compiles in `folder`, and look there first.

    What a user says of it by JAX's own variables holds. A disk that refuses costs one line. None is
    kept or read of several CPU devices, unless XLA_FLAGS say how these begin: of a program that is
    read back XLA (0.10.2) has lost the order of its collectives, and devices that begin with others
    wait for ever.
    """
    if _are_cpus(processes):
        ordered = ORDER in os.environ.get("XLA_FLAGS", "")
        jax.config.update(ENABLED, ordered and getattr(jax.config, ENABLED))
    elif getattr(jax.config, FOLDER) is None:
        jax.config.update(FOLDER, str(folder.absolute()))
        if SECONDS.upper() not in os.environ:  # programs below 1 s too: 1.5 s of a tiny decoder
            jax.config.update(SECONDS, 0)
    warnings.showwarning = partial(_show, warnings.showwarning, set())


def _are_cpus(processes: int) -> bool:
    """Return whether a run is on several CPU devices."""
    config: Any = jax.config
    several = max(processes, config.jax_num_cpu_devices) > 1
    return several and (config.jax_platforms or "").startswith("cpu")


def _show(show: Callable[..., None], reported: set[str], message: Any, *place: Any) -> None:
    """Show a warning; of the cache's own the first. An entry that cannot be read goes: JAX leaves it."""
    fault = FAULT.match(str(message))
    if fault is None:
        show(message, *place)
    elif jax.process_index() == 0:  # the only one that writes; others may read what is half written
        (act, program, why), folder = fault.groups(), Path(getattr(jax.config, FOLDER))
        why += _remove(folder, program) if act == "reading" else ""
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
