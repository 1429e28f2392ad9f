"""Options of XLA's compilers, by platform, which go with one program and not with the environment."""

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..base.errors import UserError

Options = Mapping[str, str | bool | int]

# What XLA says of an option that it does not have. Of --name in the environment, it ends the process.
UNKNOWN = "No such compile option"


def compiler_options(table: Mapping[str, Options]) -> dict[str, Any]:
    """Return the options of `table` for the platform of the mesh in place: those that its XLA has.

    table: platform, such as "gpu" or "tpu" -> options by name, without dashes. One that XLA_FLAGS or
    LIBTPU_INIT_ARGS sets is left to them. One that this XLA does not have is said in a line. Raises
    UserError for a value that XLA refuses.
    """
    environment = " ".join(os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"))
    said = re.findall(r"--(\w+)", environment)
    platform = jax.sharding.get_mesh().devices.flat[0].platform
    wanted = {name: value for name, value in table.get(platform, {}).items() if name not in said}
    if not wanted or not _refusal(wanted):
        return wanted
    options = {}
    for name, value in wanted.items():
        refusal = _refusal({name: value})
        if not refusal:
            options[name] = value
        elif UNKNOWN not in refusal:
            raise UserError(f"xla_flags.py: {name} = {value!r}: {refusal}")
        elif jax.process_index() == 0:
            print(f"note: xla_flags.py: this XLA has no {name}", file=sys.stderr)
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
