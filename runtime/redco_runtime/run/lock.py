"""A work folder has one run at a time: its process 0 has lock.json there, and touches it while it lives.

Nothing is relied on that a shared file system may lack, such as locks of the kernel, or clocks that
agree: a file is made by one of two who try, or renamed, and its time is looked at for a change alone.
"""

import atexit
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ..base.messages import UserError, writing
from ..base.files import is_bucket

FILE = "lock.json"
BEAT = 10.0  # seconds between two touches
MISSED = 3  # touches after which a process of another host is taken to be gone
LOOK = 1.0  # seconds between two looks at them
MOST = 4096  # bytes of the file
Seen = tuple[bytes, int]  # what the file says, and when it was touched


@dataclass(frozen=True)
class Holder:
    """The process that has a work folder."""

    host: str
    pid: int
    machine: str  # what a process id belongs to: a boot, and its namespace, as in a container
    began: str  # when the process began there, as its id may be another's later
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    def lives(self) -> bool:
        """Return whether the process is still there, on this machine."""
        return _began(self.pid) in ("?", self.began)


Lost = Callable[[str], None]
_locks: dict[Path, tuple[bytes, Lost]] = {}  # by this process: (what the file says, whom to tell)
_new: set[Path] = set()  # of these, those whose folder was made for them


def hold(workdir: Path, lost: Lost) -> None:
    """Take a work folder for this process until it ends. Raises UserError where another one has it.

    A process of this machine has it as long as it lives; for one of another it waits, until that one
    has missed MISSED touches, or touches it.
    lost: called, by a thread, with a message where another one takes it, as this one was asleep.
    """
    path = workdir.absolute() / FILE
    if path in _locks:
        return
    mine = json.dumps(asdict(_this_process())).encode() + b"\n"
    with writing(workdir):
        if not workdir.exists():
            _new.add(path)
        workdir.mkdir(parents=True, exist_ok=True)
        while not _make(path, mine):
            seen = _look(path)
            if seen and _is_gone(path, seen):
                _take_away(path, seen[0])
    first, _locks[path] = not _locks, (mine, lost)
    if first:
        atexit.register(release)
        threading.Thread(target=_touch_all, name="lock", daemon=True).start()


def owner_of(workdir: Path) -> str:
    """Return what the lock of a work folder says, "" for none that this host sees."""
    seen = _look(workdir.absolute() / FILE)
    return seen[0].decode(errors="replace") if seen else ""


def release() -> None:
    """Drop all that this process holds."""
    while _locks:
        path, (mine, _) = _locks.popitem()
        with suppress(OSError):
            if is_bucket(path):
                path.disown(mine)
            elif path.read_bytes() == mine:
                path.unlink()
                if path in _new:
                    path.parent.rmdir()  # where nothing was written, as of a wrong flag


def _is_gone(path: Path, seen: Seen) -> bool:
    """Return whether the holder that was seen is gone, or False to look anew. Raises UserError where it lives."""
    holder, folder = _read(seen[0]), path.parent
    todo = "wait for its end, or choose another folder"
    if holder and holder.machine == _machine():
        if holder.lives():
            raise UserError(f"--workdir: {folder} is in use by {holder}: {todo}")
        return True
    patience = MISSED * BEAT
    print(
        f"{folder} was in use by {holder or 'a process'}: waiting {patience:.0f} s for a sign that it lives",
        file=sys.stderr,
        flush=True,
    )
    until = time.monotonic() + patience
    while time.monotonic() < until:
        time.sleep(LOOK)
        now = _look(path)
        if now is None or now[0] != seen[0]:
            return False
        if now != seen:
            raise UserError(f"--workdir: {folder} is in use by {holder}, which lives: {todo}")
    return True


def _make(path: Path, text: bytes) -> bool:
    """Write the file if it is not there; return whether it was not."""
    if is_bucket(path):
        return path.become_owner(text)
    try:
        with open(path, "xb") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _look(path: Path) -> Seen | None:
    """Return what there is of the file; by opening it, as NFS remembers the times of what is closed."""
    if is_bucket(path):
        return path.owner()
    try:
        with open(path, "rb") as file:
            return file.read(MOST), os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return None


def _take_away(path: Path, text: bytes) -> None:
    """Remove the file that says `text`, and no other."""
    if is_bucket(path):
        return path.disown(text)
    aside = path.with_name(f"{FILE}.{uuid.uuid4().hex[:8]}")
    with suppress(FileNotFoundError):
        path.rename(aside)
        moved = _look(aside)
        if moved and moved[0] == text:
            aside.unlink()
        else:  # of one that was faster
            aside.rename(path)


def _touch_all() -> None:
    """Show every BEAT seconds that this process lives, as long as it holds something."""
    while _locks:
        time.sleep(BEAT)
        for path, (mine, lost) in list(_locks.items()):
            with suppress(OSError):  # of a disk, which may be better the next time
                if not _touch(path, mine) and path in _locks:
                    del _locks[path]
                    seen = _look(path)
                    other = seen and _read(seen[0])
                    lost(
                        f"--workdir: {path.parent} is in use by {other or 'another process'}: this one was "
                        f"silent for {MISSED * BEAT:.0f} s, and ends. What it saved is whole."
                    )


def _touch(path: Path, mine: bytes) -> bool:
    """Update the time of the file; return whether it is still this process's."""
    if is_bucket(path):
        return path.renew(mine)
    try:
        with open(path, "rb") as file:
            if file.read(MOST) not in (mine, b""):  # nothing yet: it is being written
                return False
            os.utime(file.fileno())
            return True
    except FileNotFoundError:  # somebody has removed it
        return not path.parent.is_dir() or _make(path, mine)


def _read(text: bytes) -> Holder | None:
    """Return what a file says; None for a damaged one, or one that is being written."""
    try:
        holder = Holder(**json.loads(text))
        return holder if isinstance(holder.pid, int) else None
    except (ValueError, TypeError, RecursionError):
        return None


def _this_process() -> Holder:
    pid, now = os.getpid(), time.strftime("%F %T")
    return Holder(socket.gethostname(), pid, _machine(), _began(pid), now)


def _machine() -> str:
    """Return what no other machine or container is called, where the system has a name of that kind."""
    name = socket.gethostname()
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{name} {boot} {os.readlink('/proc/self/ns/pid')}"
    return name


def _began(pid: int) -> str:
    """Return when a process began, in ticks since the boot: "" if it is gone, "?" if that is not said."""
    try:
        os.kill(pid if pid > 0 else 2**31 - 1, 0)
    except (ProcessLookupError, OverflowError):
        return ""
    except PermissionError:
        pass
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "?"
    return "" if state in "ZX" else numbers[18]
