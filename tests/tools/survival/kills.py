"""Kills a run of two processes at random moments, again and again, and compares its end with an undisturbed run.

    python -m survival.kills --kills 50 [--seed 0] [--bucket]

With --bucket its work folder is in an emulated one. A quarter of the kills come before the first step of a try, a quarter between steps, half while a
checkpoint is written or an old one deleted. Prints a line a kill, and writes
kills.md, here or in buckets.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from buckets.emulated import emulated_bucket
from survival.project import HERE, NAME, environment, make_project
from redco_runtime.checkpoints.checksums import Damaged, check_sums
from redco_runtime.monitor.events import add_up_events
from redco_runtime.base.files import (
    files_of_lines,
    is_bucket,
    path_of,
    read_lines,
    whole_checkpoints,
)
from redco_runtime.checkpoints.checkpoint import Checkpoints

# The launcher, without the pauses in which a cluster comes back to its senses.
LAUNCH = f"from {NAME}.runtime.cluster import launch; launch.PAUSES = (0.1,); launch.main()"
SAVE_EVERY = 3
PER_KILL = 20  # steps of the run: more than are made between two kills
WHEN = ("before a step", "between steps", "while a checkpoint is written or an old one deleted")
WEIGHTS = (1, 1, 2)
START = 10.0  # seconds in which the processes import, meet, restore and compile
MOST_SAVES = 4  # of a try, before it is killed
SAVED = 16  # million numbers of float32 in a checkpoint whose time is taken
TIMES = 5  # that it is saved, of which the median is shown
AFTER = 0.4  # seconds, at most, from the last save or the begin of one to the kill

TABLE = """# {count} kills of a run of two processes{where}

Written by `make table NAME={name}`. Each time one process, or both, are killed by signal 9 at a random moment; the launcher
starts them again from the newest checkpoint. At the end each array of the last checkpoint and each loss in
metrics.jsonl are those of a run that nobody killed, to the bit.

*half done*: after the kill a checkpoint lay there that was not yet whole, or no longer. *torn*: one whose name says that it is
whole and whose checksums say that it is not, so that a restart passes it over.

| killed | when | times | half done | torn |
|---|---|---|---|---|
{rows}

{undisturbed:.0f} s undisturbed, {seconds:.0f} s with the kills: most of the difference is Python and JAX starting {count} times.
Goodput, as `redco report` has it: {goodput:.0%}.
"""
IN_BUCKET = """
In the bucket a checkpoint is whole when `commit_success.txt` lies in it, which is written last; the owner of the work folder is
an object that is made on condition that it is new. A save of {size} MB takes {there:.2f} s there and {here:.2f} s on the disk of the same
machine, in the same run: {ratio:.1f} times (median of {times}). The bucket is moto's server of S3, a process of Python on the same cores: it shows
what is safe, and not how fast a bucket is. `gs://` goes the same way by gcsfs and TensorStore's own driver, and was not tried against a real one.
"""


@dataclass(frozen=True)
class Kill:
    """What was killed, and what it left: complete checkpoints, those with a fault, the newest sound step."""

    victims: tuple[int, ...]
    when: str  # of WHEN
    tidy: bool  # whether no half-written or half-deleted folder lay there
    torn: tuple[int, ...]  # complete by their names, and yet not sound
    newest: int  # -1: none yet


@dataclass(frozen=True)
class Survived:
    """A run that ended, bit for bit, as one that nobody killed, and the seconds that both took."""

    kills: list[Kill]
    undisturbed: float
    seconds: float
    goodput: float  # share of the time that went into steps that the run has

    def table(self, name: str, where: str) -> str:
        """Return its page."""
        rows = []
        for victims in ((0,), (1,), (0, 1)):
            for when in WHEN:
                some = [one for one in self.kills if (one.victims, one.when) == (victims, when)]
                who = "both processes" if len(victims) > 1 else f"process {victims[0]}"
                untidy, torn = sum(not one.tidy for one in some), sum(
                    bool(one.torn) for one in some
                )
                rows.append(f"| {who} | {when} | {len(some)} | {untidy} | {torn} |")
        return TABLE.format(
            count=len(self.kills),
            name=name,
            where=where,
            rows="\n".join(rows),
            undisturbed=self.undisturbed,
            seconds=self.seconds,
            goodput=self.goodput,
        )


class Run:
    """A run of a small project under the launcher."""

    def __init__(self, folder: Path, name: str, steps: int, bucket: str = "") -> None:
        self.workdir = path_of(f"{bucket or folder}/{name}")
        self._log = folder / f"{name}.log"
        self._command = [
            *(sys.executable, "-c", LAUNCH, "--processes", "2", "--max-restarts", "100000"),
            *("-m", "killed.train", "--virtual-devices", "1", "--steps", str(steps)),
            *("--save-every", str(SAVE_EVERY), "--log-every", "1", "--eval-every", "100000"),
            *("--workdir", str(self.workdir)),
        ]
        self._env = environment(folder)
        self.launcher: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the launcher, and with it the processes."""
        with open(self._log, "ab") as log:
            self.launcher = subprocess.Popen(
                self._command,
                env=self._env,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def processes(self) -> list[int]:
        """Return the ids of the two processes, or fewer where they are not there yet, in their order."""
        assert self.launcher is not None
        path = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children")
        return [*map(int, path.read_text().split())] if path.exists() else []

    def ended(self) -> bool:
        """Return whether the launcher has ended."""
        assert self.launcher is not None
        return self.launcher.poll() is not None

    def log(self) -> str:
        """Return all that the run printed."""
        return self._log.read_text(errors="replace")

    def steps(self) -> list[int]:
        """Return the steps whose checkpoint is complete by its name."""
        return sorted(whole_checkpoints(self.workdir / "checkpoints"))

    def newest(self) -> int:
        """Return the newest of them, -1 for none."""
        return max(self.steps(), default=-1)

    def saving(self) -> bool:
        """Return whether a checkpoint is being written."""
        folder = self.workdir / "checkpoints"
        if is_bucket(folder):
            return len([*folder.glob("*")]) > len(self.steps())
        return any(folder.glob("*.orbax-checkpoint-tmp"))


def wait_for(when: str, run: Run, alive: Callable[[], bool], chance: random.Random) -> None:
    """Wait for a moment of a try, or until it is no longer alive."""
    if when == WHEN[0]:
        until = time.monotonic() + chance.random() * START
        while alive() and time.monotonic() < until:
            time.sleep(0.02)
        return
    saves, newest = chance.randint(0, MOST_SAVES), run.newest()
    while alive() and saves:
        if run.newest() != newest:
            saves, newest = saves - 1, run.newest()
        time.sleep(0.005)
    while when == WHEN[2] and alive() and not run.saving():
        time.sleep(0.002)
    time.sleep(chance.random() * AFTER)


def kill(run: Run, chance: random.Random) -> Kill | None:
    """Kill one process or both of `run` at a moment left to chance; None where it ended before."""
    while not run.ended() and len(run.processes()) < 2:
        time.sleep(0.05)
    pids, (when,) = run.processes(), chance.choices(WHEN, WEIGHTS)
    wait_for(when, run, lambda: not run.ended() and run.processes() == pids, chance)
    if run.ended() or run.processes() != pids:
        return None
    victims = chance.choice([(0,), (1,), (0, 1)])
    for victim in victims:
        with suppress(ProcessLookupError):
            os.kill(pids[victim], signal.SIGKILL)
    while not run.ended() and set(pids) & set(run.processes()):
        time.sleep(0.05)
    folder = run.workdir / "checkpoints"
    steps = run.steps()
    torn = tuple(step for step in steps if is_torn(folder / str(step)))
    sound = [step for step in steps if step not in torn]
    tidy = {path.name for path in folder.glob("*")} == {*map(str, sound)}
    return Kill(victims, when, tidy, torn, max(sound, default=-1))


def is_torn(folder: Path) -> bool:
    """Return whether a file of a checkpoint is not as its checksums say."""
    try:
        check_sums(folder)
    except Damaged:
        return True
    return False


def kills(run: Run, count: int, chance: random.Random) -> Iterator[Kill]:
    """Start a run, and start its launcher again where that has given up, until it is killed `count` times."""
    run.start()
    done = 0
    while done < count:
        if run.ended():
            assert run.launcher and run.launcher.returncode, "it ended before: give it more steps"
            run.start()
        if one := kill(run, chance):
            done += 1
            yield one


def final_state(run: Run) -> dict[str, bytes]:
    """Return the bytes of each array of its newest checkpoint, by name."""
    import orbax.checkpoint as ocp

    folder = Checkpoints(run.workdir / "checkpoints").directory / str(run.steps()[-1]) / "default"
    with ocp.PyTreeCheckpointer() as reader:
        names = reader.metadata(folder).item_metadata.tree
        kinds = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
        state = reader.restore(folder, args=ocp.args.PyTreeRestore(restore_args=kinds))
    return {name: value.tobytes() for name, value in state.items()}


def losses(run: Run) -> list[tuple[int, float]]:
    """Return (step, loss) of each line of its metrics."""
    files = files_of_lines(run.workdir / "metrics.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [(line["step"], line["loss"]) for line in lines if "loss" in line]


def wait(run: Run, seconds: float = 600) -> None:
    """Wait until a run has ended. Raises AssertionError, with what it printed, unless it ended well."""
    assert run.launcher is not None
    code = run.launcher.wait(seconds)
    assert code == 0, f"exit code {code}\n{run.log()[-3000:]}"


def survive(folder: Path, count: int, seed: int, steps: int, bucket: str = "") -> Survived:
    """Return the kills of a run that ended, bit for bit, as one that nobody killed.

    Raises AssertionError where it did not.
    """
    make_project(folder)
    begun = time.monotonic()
    straight = Run(folder, "straight", steps, bucket)
    straight.start()
    wait(straight)
    undisturbed, begun = time.monotonic() - begun, time.monotonic()
    run, survived = Run(folder, "run", steps, bucket), []
    for one in kills(run, count, random.Random(seed)):
        survived.append(one)
        print(f"{len(survived)}: {one}", flush=True)
    if run.ended():
        run.start()
    wait(run)
    assert final_state(run) == final_state(straight), "the last checkpoints differ"
    assert losses(run) == losses(straight), "metrics.jsonl differs"
    seconds = time.monotonic() - begun
    goodput = add_up_events(read_lines(run.workdir / "events.jsonl")).goodput
    return Survived(survived, undisturbed, seconds, goodput)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bucket", action="store_true")
    args = parser.parse_args()
    where = emulated_bucket() if args.bucket else nullcontext("")
    with tempfile.TemporaryDirectory() as folder, where as bucket:
        survived = survive(Path(folder), args.kills, args.seed, PER_KILL * args.kills, bucket)
        if not args.bucket:
            (HERE / "kills.md").write_text(survived.table("kills", ""))
            return
        here, there = seconds_of_saves(Path(folder) / "saved", path_of(f"{bucket}/saved"))
    more = IN_BUCKET.format(size=4 * SAVED, here=here, there=there, ratio=there / here, times=TIMES)
    page = survived.table("kills-bucket", " in a bucket") + more
    (HERE.with_name("buckets") / "kills.md").write_text(page)


def seconds_of_saves(*folders: Any) -> list[float]:
    """Return the median time of a checkpoint in each of some folders, saved in turn."""
    import jax

    numbers = jax.random.normal(jax.random.key(0), (SAVED * 10**6,))  # zeros would be packed
    state, seconds = {"params/x": numbers}, [list[float]() for _ in folders]
    for step in range(TIMES):
        for folder, taken in zip(folders, seconds, strict=True):
            with Checkpoints(folder) as checkpoints:
                begun = time.monotonic()
                checkpoints.save(step, state)
                checkpoints.wait()
                taken.append(time.monotonic() - begun)
    return [median(taken) for taken in seconds]


if __name__ == "__main__":
    main()
