"""Every fault that a run of two processes may meet: how soon each of them ends, with which code, and what it says.

    python -m survival.faults [--bucket] [NAME ...]

Writes faults.md, of all faults where none is named; else prints the rows of those. With --bucket the work folder is in an
emulated one, and buckets/faults.md has those that have to do with it.
"""

import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from buckets.emulated import emulated_bucket
from survival.project import FAULTY, HERE, NAME, environment, make_project

MOST = 150.0  # seconds; what still runs then has not ended
TITLE = """# Faults of a run of two processes, in a bucket

The work folder lies in moto's server of S3, a process of Python on the same cores; those faults that have to do with it."""
TABLE = """{title}

Written by `make table NAME={name}`, on two cores and loopback: each fault in a run of its own, of [a small network]({net}).
*before*: what became of a project of the first version, as it was measured then. *ends*: seconds from the fault
until both processes have ended. *codes*: exit codes of process 0 and 1, negative for a signal, none for one that
is stopped for good. *lines*: that both
have written to their terminals in all, but for what goes on: steps and how it began. *says*: the last of them of each, once where it is the same.

| fault | before | ends | codes | lines | says |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Fault:
    """What goes wrong: by the environment or the flags of process 1 (or 0), or by `act` in a run that steps."""

    name: str
    before: str
    act: Callable[["Run"], None] | None = None
    fault: str = ""  # of the pipeline of process 1; see project.py
    env: dict[str, str] = field(default_factory=dict)  # of process 1
    flags: tuple[str, ...] = ()  # of process 1
    both: tuple[str, ...] = ()  # flags of both
    processes: int = 2
    started: int = 2  # of those processes


class Run:
    """Processes of one run, without a launcher, whose run starts now."""

    def __init__(self, folder: Path, fault: Fault, bucket: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        workdir = f"{bucket or self.folder.parent}/{self.folder.name}/run"
        self._fault_at = self.folder / "fault"
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        env = environment(folder) | {
            **({"REDCO_COORDINATOR": f"localhost:{port}"} if fault.processes > 1 else {}),
            **({"REDCO_PROCESS_COUNT": str(fault.processes)} if fault.processes > 1 else {}),
            "REDCO_BOOT_TIMEOUT": "20",
            "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
            "FAULT_AT": str(self._fault_at),
        }
        command = [
            *(sys.executable, "-u", "-m", f"{NAME}.train", "--virtual-devices", str(2 // fault.processes)),
            *("--steps", "1000000", "--log-every", "1", "--save-every", "20", "--eval-every", "1000000"),
            *("--step-timeout", "15", "--workdir", workdir, *fault.both),
        ]  # fmt: skip
        last = fault.processes - 1
        self.began = time.monotonic()
        self.processes = []
        for index in range(fault.started):
            own = {"REDCO_PROCESS_INDEX": str(index)} if fault.processes > 1 else {}
            mine = index == last and {
                **fault.env,
                **({"FAULT": fault.fault} if fault.fault else {}),
            }
            with (
                open(self.folder / f"{index}.out", "wb") as out,
                open(self.folder / f"{index}.err", "wb") as said,
            ):
                process = subprocess.Popen(
                    command + list(fault.flags if index == last else ()),
                    env=env | own | (mine or {}),
                    stdout=out,
                    stderr=said,
                    stdin=subprocess.DEVNULL,
                    cwd=self.folder,
                )
            self.processes.append(process)

    def steps(self) -> str:
        """Return what process 0 has printed of its steps."""
        return (self.folder / "0.out").read_text(errors="replace")

    def said(self, index: int) -> list[str]:
        """Return the lines that a process has written to stderr."""
        return (self.folder / f"{index}.err").read_text(errors="replace").splitlines()

    def wait_for_steps(self) -> None:
        """Wait until it has made steps."""
        until = time.monotonic() + MOST
        while not re.search(r"^step \d\d+/", self.steps(), re.M) and time.monotonic() < until:
            time.sleep(0.05)

    def wait(self) -> float | None:
        """Return the seconds from the fault until all have ended, but those that are stopped; None: too long."""
        until = time.monotonic() + MOST
        while any(p.poll() is None and not _stopped(p.pid) for p in self.processes):
            if time.monotonic() > until:
                return None
            time.sleep(0.05)
        wall = time.time() - self._fault_at.stat().st_mtime if self._fault_at.exists() else 0
        return wall or time.monotonic() - self.began

    def kill(self, index: int, number: signal.Signals) -> None:
        """Send a signal to a process; this is the fault."""
        self.began = time.monotonic()
        self.processes[index].send_signal(number)

    def end(self) -> None:
        """End what is left."""
        for process in self.processes:
            process.kill()
            process.wait()


def row(folder: Path, fault: Fault, bucket: str = "") -> str:
    """Return the row of a fault in the table, of a run that meets it."""
    run = Run(folder, fault, bucket)
    try:
        if fault.act:
            run.wait_for_steps()
            fault.act(run)
        seconds = run.wait()
        codes = [process.poll() for process in run.processes]
        said = [run.said(index) for index in range(len(codes))]
    finally:
        run.end()
    ends = f"{seconds:.0f} s" if seconds is not None else f"not within {MOST:.0f} s"
    shown = ", ".join("none" if code is None else str(code) for code in codes)
    last = dict.fromkeys(_shown(lines[-1], run.folder) for lines in said if lines)
    count = sum(map(len, said))
    return f"| {fault.name} | {fault.before} | {ends} | {shown} | {count} | {' / '.join(last)} |"


def kill(index: int, number: signal.Signals) -> Callable[[Run], None]:
    """Return what sends a signal to a process of a run."""
    return lambda run: run.kill(index, number)


def interrupt_twice(run: Run) -> None:
    """Send Ctrl-C twice to a process alone, more than a second apart."""
    run.kill(0, signal.SIGINT)
    time.sleep(1.1)
    run.processes[0].send_signal(signal.SIGINT)


TERM, INT, KILL, STOP = signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSTOP
FAULTS = (
    Fault("kill -9 of process 1", "0.2 s, 1: gloo, an address", act=kill(1, KILL)),
    Fault("kill -9 of process 0", "0.1 s, 1: gloo, an address", act=kill(0, KILL)),
    Fault("SIGSTOP of process 1", "24 s, -6: a C++ stack", act=kill(1, STOP)),
    Fault("SIGSTOP of process 0", "18 s, -6: a C++ stack", act=kill(0, STOP)),
    Fault("collate hangs in process 1 (--step-timeout 15)", "never, nothing", fault="hang"),
    Fault("examples() hangs in process 1 (40 s for it)", "never, nothing", fault="stuck", env={"LONG": "40"}),
    Fault("SIGTERM to process 0", "never: trained on", act=kill(0, TERM)),
    Fault("SIGTERM to process 1", "never: trained on", act=kill(1, TERM)),
    Fault("Ctrl-C in process 1", "not measured", act=kill(1, INT)),
    Fault("SIGTERM, one process", "0.1 s, -15: nothing saved", act=kill(0, TERM), processes=1, started=1),
    Fault("Ctrl-C, one process", "2 s, 130: nothing saved", act=kill(0, INT), processes=1, started=1),
    Fault("Ctrl-C twice, one process", "not measured", act=interrupt_twice, fault="slow", processes=1, started=1),
    Fault("process 1 raises in collate", "0 s, 1: gloo in process 0", fault="raise"),
    Fault("process 1 exits with 0", "0 s: gloo in process 0", fault="exit"),
    Fault("a batch of NaN", "to the end, 0; every checkpoint NaN", fault="nan"),
    Fault("collate: ragged", "2: a line of NumPy", fault="ragged"),
    Fault("collate: dtype object", "1: a traceback", fault="object"),
    Fault("collate: another width", "1: a traceback", fault="width"),
    Fault("collate: too few rows", "1: a traceback", fault="short"),
    Fault("other flags in process 1", "6 s, 2: a hash", flags=("--learning-rate", "0.01")),
    Fault("other examples in process 1", "to the end, 0: silently wrong", fault="other data"),
    Fault("another work folder in process 1", "stuck at the second save", flags=("--workdir", "elsewhere")),
    Fault("a count of processes that differs", "8 s, 2", env={"REDCO_PROCESS_COUNT": "3"}),
    Fault("two processes 0", "a timeout, 2", env={"REDCO_PROCESS_INDEX": "0"}),
    Fault("process 1 never comes (20 s for it)", "timeout, 2", started=1),
    Fault("a host without address (20 s for it)", "timeout + 4 s, 2", env={"REDCO_COORDINATOR": "no.such.host:7000"}),
    Fault("a work folder that cannot be written", "0 s, 2", both=("--workdir", "/proc/run")),
)  # fmt: skip


STORED = ("kill -9", "SIGTERM", "Ctrl-C in", "raises", "NaN", "another work folder")  # in a bucket


def main() -> None:
    in_bucket, names = "--bucket" in sys.argv, [x for x in sys.argv[1:] if x != "--bucket"]
    whole, names = not names, names or list(STORED if in_bucket else ())
    signal.signal(
        INT, signal.default_int_handler
    )  # which a shell ignores in what it runs beside itself
    some = [fault for fault in FAULTS if not names or any(name in fault.name for name in names)]
    rows = []
    where = emulated_bucket() if in_bucket else nullcontext("")
    with tempfile.TemporaryDirectory() as folder, where as bucket:
        make_project(Path(folder))
        with open(Path(folder) / NAME / NAME / "pipeline.py", "a") as pipeline:
            pipeline.write(FAULTY)
        for fault in some:
            rows.append(row(Path(folder), fault, bucket))
            print(rows[-1], flush=True)
    if whole:
        page, net = (
            (HERE.with_name("buckets"), "../survival/net.py") if in_bucket else (HERE, "net.py")
        )
        title, name = (TITLE, "faults-bucket") if in_bucket else (TITLE.partition(",")[0], "faults")
        table = TABLE.format(title=title, name=name, net=net)
        (page / "faults.md").write_text(table + "\n".join(rows) + "\n")


def _shown(line: str, folder: Path) -> str:
    """Return a message without the names of this machine's folders."""
    line = re.sub(r"; its log: \S*/logs/", "; its log: logs/", line).replace(str(folder), "")
    return line.replace("|", "\\|")[:400]


def _stopped(pid: int) -> bool:
    """Return whether a process is stopped by SIGSTOP."""
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] == "T"


if __name__ == "__main__":
    main()
