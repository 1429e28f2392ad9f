"""Kills one of four hosts, launcher and process, again and again: how soon those left go on, and with which losses.

    python -m survival.elastic [--times 20] [--seed 0]

Each time is a run of its own, on a free port; a launcher that is alone on its machine is what makes a host. Prints a line
a kill, and writes elastic.md.
"""

import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from survival.project import HERE, NAME, environment, make_project

from redco_new.project.create import create_project
from redco_new.request import Request

HOSTS = 4
STEPS = 200
COMPARED = 20  # losses after a kill
MOST = 180.0  # seconds for what is waited for
LAUNCH = (sys.executable, "-m", f"{NAME}.runtime.cluster.launch")
WHEN = ("between steps", "while a checkpoint is written")
# Appended to the pipeline of a decoder: a device that has no room for twice the rows.
SMALL = """

import os

from killed.runtime.cluster import fewer

fewer.memory_of = lambda device: int(float(os.environ.get("HAS", 0)))
"""
TABLE = """# One of four hosts is lost, {times} times

Written by `make table NAME=elastic`, on two cores and loopback: four launchers with `--elastic` are four hosts. One of them and its
process are killed by signal 9; after 20 s of silence those left go on from the newest checkpoint. *next step*: seconds from
the kill, median and greatest, of which 20 are the silence; the machine had up to {load:.0f} processes to run meanwhile, and gave those left its cores first. *difference*: the greatest of the losses of the next {compared} steps from those of a run
of four that nobody killed, in float32.

| run | killed | times | goes on with | next step | difference |
|---|---|---|---|---|---|
{rows}

The network is [net.py](net.py), which has batch statistics and dropout: 16 rows split over `data` 2 and `model` 2, and four hosts become two, as `model`
stays. The decoder is GPT-J's tiny preset over `data` 4, on devices that have hardly room for the rows that they had: two hosts take more
micro-batches. The third host waits.
"""


@dataclass(frozen=True)
class Kind:
    """A project: the flags of its runs, and its environment."""

    name: str
    flags: tuple[str, ...]
    env: dict[str, str]


NET = Kind("network", ("--batch-size", "16"), {})
DECODER = Kind(
    "decoder",
    ("--preset", "tiny", "--batch-size", "16", "--sequence-length", "32", "--sample-prompts"),
    {"HAS": "16.5e6"},
)


@dataclass(frozen=True)
class Kill:
    """What was killed, when, and what followed: seconds to the next step, hosts and flags, greatest difference."""

    kind: Kind
    victim: int
    when: str
    hosts: int
    flags: str
    seconds: float
    difference: float


def prefer(pid: int) -> None:
    """Give the session of a process the cores before other work, as a host has its own; root may, on Linux."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("-10")


def make(folder: Path, kind: Kind) -> None:
    """Create the project of a kind in `folder`."""
    if kind is NET:
        return make_project(folder)
    request = Request.from_flags(
        NAME, "gpt-j", mesh="data=-1", features="elastic", folder=folder / NAME
    )
    create_project(request, folder)
    with open(folder / NAME / NAME / "pipeline.py", "a") as file:
        file.write(SMALL)


def command(kind: Kind, workdir: Path) -> list[str]:
    """Return what a launcher starts."""
    return [
        *("-m", f"{NAME}.train", "--virtual-devices", "1", "--steps", str(STEPS), "--save-every", "5"),
        *("--log-every", "1", "--eval-every", "100000", "--workdir", str(workdir), *kind.flags),
    ]  # fmt: skip


def losses(workdir: Path) -> dict[int, float]:
    """Return the loss of each step that its metrics have."""
    path = workdir / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    with suppress(ValueError):  # a line that is being written
        return {one["step"]: one["loss"] for one in map(json.loads, lines) if "loss" in one}
    return {}


class Run:
    """Four hosts."""

    def __init__(self, folder: Path, kind: Kind, number: int) -> None:
        self.workdir = folder / f"run-{number}"
        self._folder = folder
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        self._logs = [folder / f"run-{number}.{index}.log" for index in range(HOSTS)]
        self.launchers = []
        for index, path in enumerate(self._logs):
            env = environment(folder) | kind.env | {
                "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
                "REDCO_COORDINATOR": f"localhost:{port}",
                "REDCO_PROCESS_COUNT": str(HOSTS),
                "REDCO_PROCESS_INDEX": str(index),
            }  # fmt: skip
            with open(path, "wb") as log:
                words = [*LAUNCH, "--elastic", *command(kind, self.workdir)]
                own = {"stdout": log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
                own["start_new_session"] = True  # which Linux gives a share of the cores, as a user
                self.launchers.append(subprocess.Popen(words, env=env, **own))

    def log(self, index: int) -> str:
        """Return what a host has printed."""
        return self._logs[index].read_text(errors="replace")

    def wait(self, there) -> object:
        """Return what a function gives once that is true."""
        until = time.monotonic() + MOST
        while not (value := there()):
            ended = [launcher.poll() for launcher in self.launchers]
            assert time.monotonic() < until and None in ended, "\n".join(
                map(self.log, range(HOSTS))
            )
            time.sleep(0.01)
        return value

    def saving(self) -> bool:
        """Return whether a checkpoint is being written."""
        return any((self.workdir / "checkpoints").glob("*.orbax-checkpoint-tmp"))

    def kill(self, index: int) -> None:
        """Kill a launcher and its process."""
        pid = self.launchers[index].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            os.kill(one, signal.SIGKILL)

    def end(self) -> None:
        """Stop it by a signal to one host, or kill what is left."""
        for launcher in self.launchers:
            if launcher.poll() is None:
                launcher.send_signal(signal.SIGTERM)
                break
        for launcher in self.launchers:
            try:
                launcher.wait(60)
            except subprocess.TimeoutExpired:
                launcher.kill()


def kill(folder: Path, kind: Kind, number: int, expected: dict[int, float], chance) -> Kill:
    """Kill a host of a run of its own, and return what followed."""
    victim, (when,), step = chance.randrange(HOSTS), chance.choices(WHEN), chance.randint(8, 60)
    run = Run(folder, kind, number)
    try:
        run.wait(lambda: max(losses(run.workdir), default=0) >= step)
        if when == WHEN[1]:
            run.wait(run.saving)
        run.kill(victim)
        for index in {*range(HOSTS)} - {victim}:
            prefer(run.launchers[index].pid)
        begun, head = time.monotonic(), min({*range(HOSTS)} - {victim})

        def next_step():
            after = run.log(head).partition("goes on with ")[2]
            return re.search(r"^step (\d+)/", after, re.M) and after

        after = run.wait(next_step)
        seconds = time.monotonic() - begun
        from_step = int((re.search(r"resuming from step (\d+)", after) or [0, 0])[1])
        run.wait(lambda: max(losses(run.workdir), default=0) > from_step + COMPARED)
        hosts, flags = re.match(r"(\d+), (.*)", after).groups()
        seen = losses(run.workdir)
    finally:
        run.end()
    codes = [one.returncode for one in run.launchers]
    assert [code for i, code in enumerate(codes) if i != victim] == [75] * (HOSTS - 1), codes
    steps = range(from_step + 1, from_step + COMPARED + 1)
    difference = max(abs(seen[step] - expected[step]) for step in steps)
    return Kill(kind, victim, when, int(hosts), flags, seconds, difference)


def undisturbed(folder: Path, kind: Kind) -> dict[int, float]:
    """Return the losses of a run of as many processes that nobody kills."""
    env = environment(folder) | {"JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")}
    words = [*LAUNCH, "--processes", str(HOSTS), *command(kind, folder / "straight")]
    with open(folder / "straight.log", "wb") as log:
        subprocess.run(words, env=env, check=True, stdout=log, stderr=subprocess.STDOUT)
    return losses(folder / "straight")


def rows(kills: list[Kill]) -> str:
    """Return the rows of the table."""
    lines = []
    for key in sorted({(one.kind.name, one.when) for one in kills}):
        some = [one for one in kills if (one.kind.name, one.when) == key]
        seconds, most = [one.seconds for one in some], max(one.difference for one in some)
        by = ", ".join(str(index) for index in sorted({one.victim for one in some}))
        layout = " / ".join(sorted({f"{one.hosts} hosts, `{one.flags}`" for one in some}))
        lines.append(
            f"| {key[0]} | one of host {by}, {key[1]} | {len(some)} | {layout} | {median(seconds):.0f} s, {max(seconds):.0f} s | {most:.1e} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chance, kills, load = random.Random(args.seed), [], 0.0
    for kind, times in ((NET, args.times - args.times // 2), (DECODER, args.times // 2)):
        with tempfile.TemporaryDirectory() as name:
            make(Path(name), kind)
            expected = undisturbed(Path(name), kind)
            for number in range(times):
                kills.append(kill(Path(name), kind, number, expected, chance))
                load = max(load, os.getloadavg()[0])
                print(f"{len(kills)}: {kills[-1]}", flush=True)
    page = TABLE.format(times=len(kills), compared=COMPARED, rows=rows(kills), load=load)
    (HERE / "elastic.md").write_text(page)


if __name__ == "__main__":
    main()
