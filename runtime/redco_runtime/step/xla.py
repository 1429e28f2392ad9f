"""XLA: options of its compilers, which go with one program, and the cache of what it compiles, so that a restart compiles nothing."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..base.messages import UserError

Options = Mapping[str, str | bool | int]

# What XLA says of an option that it does not have. Of --name in the environment, it ends the process.
UNKNOWN = "No such compile option"
FOLDER, ENABLED = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
SECONDS = "jax_persistent_cache_min_compile_time_secs"
ORDER = "xla_cpu_scheduler_type"  # by memory none has waited yet; as early as they can, most
# JAX warns so, and goes on without: (reading or writing, name of the program, why).
FAULT = re.compile(r"Error (\w+) persistent compilation cache entry for '(.*?)': (.*)", re.DOTALL)


def compiler_options(table: Mapping[str, Options]) -> dict[str, Any]:
    """Return the options of `table` for the platform of the mesh in place: those that its XLA has.

    table: platform, such as "gpu" or "tpu" -> options by name, without dashes. One that XLA_FLAGS or
    LIBTPU_INIT_ARGS sets is left to them. One that this XLA does not have is said in a line. Raises
    UserError for a value that XLA refuses.
    """
    environment = " ".join(os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"))
    said = re.findall(r"--(\w+)", environment)
    platform = jax.sharding.get_mesh().devices.flat[0].platform
    options = {name: value for name, value in table.get(platform, {}).items() if name not in said}
    for name, value in [*options.items()] if options and _refusal(options) else ():
        if refusal := _refusal({name: value}):
            if UNKNOWN not in refusal:
                raise UserError(f"xla_flags.py: {name} = {value!r}: {refusal}")
            if jax.process_index() == 0:
                print(f"note: xla_flags.py: this XLA has no {name}", file=sys.stderr)
            del options[name]
    return options


def _refusal(options: Mapping[str, Any]) -> str:
    """Return why XLA refuses to compile with these options, "" where it does not."""
    place = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
    one = jax.ShapeDtypeStruct((), "float32", sharding=place)
    program = jax.jit(lambda x: x + 1, out_shardings=place)
    try:
        program.lower(one).compile(compiler_options=dict(options))
    except jax.errors.JaxRuntimeError as error:
        return str(error).splitlines()[0]
    return ""


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
