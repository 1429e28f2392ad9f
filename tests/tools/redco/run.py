"""Redco 0.4.23 against a generated project: step time, compile time and memory on virtual CPU devices.

    python tests/tools/redco/run.py --project my-project      both sides, in turn
    python tests/tools/redco/run.py                           Redco alone

Run it with the Python of the generated project. Redco gets its own environment, built once (needs a
package index) in .benchmarks/ at the root of the repository. Every run is a process of its own; the
sides alternate, and the table shows the medians over the rounds, their ratio, and the largest ratio
of a round. Linux only; nothing else should run on the machine meanwhile, or only CPU seconds count.
`--B 2 --L 2 --steps 3` and the like make it short. RESULTS.md beside this file has what came of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from report import line, table
from sizes import SHARDS, Sizes

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
ENVIRONMENT = HERE.parents[2] / ".benchmarks" / "redco"


def redco_python() -> Path:
    """The Python of Redco's environment, which is built if requirements.txt is not what it holds."""
    python = ENVIRONMENT / "bin" / "python"
    installed = ENVIRONMENT / "installed.txt"
    wanted = REQUIREMENTS.read_text()
    if not installed.is_file() or installed.read_text() != wanted:
        print(f"building {ENVIRONMENT} (once)", flush=True)
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS]
        subprocess.run(pip, check=True)
        installed.write_text(wanted)
    return python


def measure(command: list[str | Path]) -> dict:
    """Runs one side to its end; returns the JSON object of its last line of output."""
    foreign = ("JAX_", "XLA_", "PYTHON")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    env["JAX_PLATFORMS"] = "cpu"
    env["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={SHARDS}"
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        side = Path(command[1]).name
        raise SystemExit(f"{side} failed with code {done.returncode}:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--project", type=Path, help="folder of a project made with --model gpt-j --shards 4"
    )
    parser.add_argument(
        "--remat",
        default="fit",
        help="policy of our side (default fit, as projects have; everything_saveable is Redco's)",
    )
    parser.add_argument("--rounds", type=int, default=2, help="runs of each side (default 2)")
    Sizes.add_flags(parser)
    arguments = parser.parse_args()
    sizes = Sizes.of(arguments)
    sides: list[list[str | Path]] = [[redco_python(), HERE / "baseline.py", *sizes.flags()]]
    if arguments.project:
        flags = ["--project", arguments.project.resolve(), "--remat", arguments.remat]
        sides.append([sys.executable, HERE / "ours.py", *flags, *sizes.flags()])
    records = []
    for round_number in range(1, arguments.rounds + 1):
        for side in sides:
            records.append(measure(side))
            print(f"round {round_number}: {line(records[-1])}", flush=True)
    print(sizes)
    print(table(records))


if __name__ == "__main__":
    main()
