"""What `redco-new` costs for a size of each family: CPU seconds, seconds and memory of the process.

    python tests/tools/generator/measure.py --runs 3 [FAMILY ...]

Whole processes one after the other, on a quiet machine: others on its cores raise CPU seconds too. Prints
a table of the least of several runs, with `redco --help` and the imports that no family can do without.
Python keeps the bytecode of what it imports, as it has that of an installed package.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from redco_new.models.families import FAMILIES

BIN = Path(sys.executable).parent
IMPORTS = "import gc; gc.disable(); import black, copier, flax.nnx; gc.freeze()"
ENVIRON = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class Cost(NamedTuple):
    """CPU seconds, of user and system; seconds; MB that were resident at once."""

    cpu: float
    wall: float
    memory: float


def cost(*command: str | Path) -> Cost:
    """What a command costs that prints nothing. Raises RuntimeError if it fails."""
    start, silent = time.perf_counter(), os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, silent, 1), (os.POSIX_SPAWN_CLOSE, silent)]
    child = os.posix_spawn(command[0], command, ENVIRON, file_actions=actions)
    os.close(silent)
    _, status, used = os.wait4(child, 0)
    if status:
        raise RuntimeError(f"{command} failed")
    seconds = time.perf_counter() - start
    return Cost(used.ru_utime + used.ru_stime, seconds, used.ru_maxrss / 1024)


def create(family: str) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        place = ("my-project", "--output", folder)
        return cost(BIN / "redco-new", *place, "--model", family, "--shards", "4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY")
    options = parser.parse_args()
    rows = {
        "redco --help": lambda: cost(BIN / "redco", "--help"),
        IMPORTS: lambda: cost(sys.executable, "-c", IMPORTS),
        **{name: lambda name=name: create(name) for name in options.families},
    }
    print(f"{'':72} CPU s      s     MB")
    for name, measure in rows.items():
        least = map(min, zip(*(measure() for _ in range(options.runs)), strict=True))
        print("{:72} {:5.2f}  {:5.2f}  {:5.0f}".format(name, *least), flush=True)


if __name__ == "__main__":
    main()
