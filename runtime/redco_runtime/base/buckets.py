"""What a bucket does in the place of files: objects are written whole, made where they are new, and listed.

It has no append, no lock and no rename. What would be appended is in numbered objects, of one writer each;
who has a work folder is the last of such objects, made on condition that it is new.
"""

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
from etils.epath.gpath import PosixGPath
from fsspec import config

from . import orbax_in_s3
from .messages import UserError, print_once
from .files import whole_checkpoints

SEND = 2.0  # seconds between two writes of what was appended: GCS takes one a second of an object
PATIENCE = 600.0  # seconds in which a bucket may be out of reach
PART = 2**16  # bytes after which another object begins: each write sends all of one
RELEASED = b"released\n"  # ends the object of an owner that is no more

# What another process has written since is to be seen.
for _name in ("s3", "s3a", "gs", "gcs", "az", "abfs"):
    config.conf.setdefault(_name, {}).setdefault("use_listings_cache", False)


class BucketPath(PosixGPath):
    """A path of a bucket. Errors of its store are OSErrors."""

    @property
    def _backend(self) -> Any:
        return _Translated(super()._backend)

    @property
    def store(self) -> Any:
        """Its file system, of fsspec."""
        return _Translated(fsspec.filesystem(str(self).partition("://")[0]))

    def absolute(self) -> "BucketPath":
        """Return it: it has its bucket."""
        return self

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Make nothing: there are no folders, and s3fs would make a bucket."""

    def files(self) -> dict[str, int]:
        """Return the size of each object below it, by its name from here."""
        start = len(str(self).partition("://")[2]) + 1
        whole = self.store.find(str(self), detail=True)
        return {name[start:]: int(about["size"]) for name, about in whole.items()}

    def stat(self) -> Any:
        """Return its st_size, in bytes."""
        return SimpleNamespace(st_size=self.store.size(str(self)))

    def version(self) -> list[Any]:
        """Return what changes as its object does."""
        about = self.store.info(str(self))
        names = ("size", "ETag", "etag", "generation", "md5Hash", "content_md5")
        return [str(about[name]) for name in names if about.get(name)]

    def matches(self) -> dict[str, int | None]:
        """Return the bytes of each object that it is a pattern of, by its whole name; None for a folder."""
        scheme = str(self).partition("://")[0]
        return {
            f"{scheme}://{name}": None if about["type"] == "directory" else int(about["size"])
            for name, about in sorted(self.store.glob(str(self), detail=True).items())
        }

    def copy_here(self, patterns: Iterable[str]) -> Path:
        """Return a copy on this machine: of its object, or a folder with those in it that have such names.

        It is made once for each version of these; of what is not there it is a path of nothing. Raises OSError.
        """
        one = self.store.isfile(str(self))
        there = [self] if one else [self / name for name in self.files() if "/" not in name]
        paths = [x for x in there if one or any(fnmatch(x.name, p) for p in patterns)]
        versions = {x.name: x.version() for x in paths}
        key = hashlib.sha256(json.dumps([str(self), versions]).encode()).hexdigest()[:24]
        folder = Path("~/.cache/redco/buckets").expanduser() / key
        if there:
            folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            if not (folder / path.name).exists():
                print_once(f"copying {path} to {folder}")
                beside = folder / f"{path.name}.{uuid.uuid4().hex[:8]}"
                path.store.get_file(str(path), str(beside))
                beside.replace(folder / path.name)
        return folder / self.name if one else folder

    def bring(self, folder: Path, names: Iterable[str] = ()) -> Iterator[str]:
        """Copy `names` of what is below it, or all, in that order, to a folder of this machine that lacks them; yield each."""
        for name in names or sorted(self.files(), key=_json_last):
            path = folder / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                beside = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.tmp")
                self.store.get_file(str(self / name), str(beside))
                beside.replace(path)
                yield name

    def fill(self, folder: Path, names: Iterable[str] = ()) -> None:
        """Write a copy of all that is in a folder of this machine, or, in that order, those of `names` that are not here."""
        some = [name for name in names if not (self / name).exists()]
        if not names:
            files = (x for x in folder.rglob("*") if x.is_file())
            some = sorted((str(x.relative_to(folder)) for x in files), key=_json_last)
        for name in some:
            self.store.put_file(str(folder / name), str(self / name))

    def numbered(self) -> list["BucketPath"]:
        """Return the numbered objects below it, in order."""
        with suppress(FileNotFoundError):
            return sorted(self / name for name in self.files() if name[:9].isdecimal())
        return []

    def create(self, data: bytes) -> bool:
        """Write an object where there is none of that name; return whether there was none."""
        try:
            self.store.pipe_file(str(self), data, mode="create")
        except FileExistsError:
            return False
        return True

    def append(self, text: str) -> None:
        """Write a line after those that `numbered` objects below it have, within SEND seconds."""
        with _LOCK:
            if not _parts:
                threading.Thread(target=_send_on, name="lines", daemon=True).start()
            part = _parts.get(self)
            if part is None or len(part.data) > PART:
                if part:
                    part.send()
                number = part.number + 1 if part else 1 + _last(self.numbered())
                part = _parts[self] = _Part(self, number)
            part.data += text.encode()
        if part.failing and time.monotonic() - part.since > PATIENCE:
            raise part.failing

    def objects(self) -> list["BucketPath"]:
        """Return the objects that have its lines, once all are sent."""
        send()
        return self.numbered()

    def rewrite(self, path: "BucketPath", data: bytes) -> None:
        """Write one of these objects again, with other lines."""
        with _LOCK:
            path.write_bytes(data)
            part = _parts.get(self)
            if part and part.path == path:
                part.data, part.sent = data, len(data)

    def owner(self) -> tuple[bytes, int] | None:
        """Return what the owner of a folder wrote, and when; None where it has none."""
        last = self.numbered()[-1:]
        text = last[0].read_bytes() if last else RELEASED
        if text.endswith(RELEASED):
            return None
        return text, int(last[0].store.modified(str(last[0])).timestamp() * 1e9)

    def become_owner(self, text: bytes) -> bool:
        """Make this process the owner where there is none, or no more; return whether it is.

        Of two who make the object of the next number one is refused. No number is used again.
        """
        numbers = self.numbered()
        if numbers and not numbers[-1].read_bytes().endswith(RELEASED):
            return False
        new = self / f"{_last(numbers) + 1:09d}"
        return new.create(text) or new.read_bytes() == text  # of a first try whose answer was lost

    def disown(self, text: bytes) -> None:
        """Make the folder free of the owner that wrote `text`, if that is the last one."""
        numbers = self.numbered()
        if numbers and numbers[-1].read_bytes() == text:
            (self / f"{_last(numbers) + 1:09d}").create(RELEASED)

    def renew(self, text: bytes) -> bool:
        """Write the object of the owner again, so that its time is new; return whether it is the one that wrote `text`."""
        last = self.numbered()[-1:]
        if not last or last[0].read_bytes() != text:
            return False
        last[0].write_bytes(text)
        return True

    teach_orbax = staticmethod(orbax_in_s3.teach_orbax)

    def checkpoint_options(self, tidy: bool) -> dict[str, Any]:
        """Return Orbax's options of how a checkpoint in it becomes whole: by an object that is written last.

        tidy: remove those that never became it.
        """
        from orbax.checkpoint import options  # late: it takes 0.6 s

        steps = whole_checkpoints(self)
        for path in self.glob("*") if tidy else ():
            if path.name.isdecimal() and int(path.name) not in steps:
                path.rmtree()
        commit = options.AtomicityMode.COMMIT_FILE
        return {"atomicity_options": options.AtomicityOptions(commit)}

    def check_writers(self, settings: Any) -> None:
        """Raise UserError for what a run whose work folder it is would write to a folder of its machine alone."""
        flags = ["--log tensorboard"] if "tensorboard" in settings.log else []
        flags += ["--profile"] if getattr(settings, "profile", "") else []
        for flag in flags:
            what = "writes to a folder of this machine alone, and --workdir is in a bucket"
            raise UserError(f"{flag}: it {what}: leave it out, or choose another --workdir")


class _Translated:
    """Makes an OSError of what fails in a store: of botocore, of aiohttp, of google.auth."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **options: Any) -> Any:
            try:
                return method(*args, **options)
            except OSError:
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                raise OSError(" ".join(why.split())) from error

        return call


class _Part:
    """The object that this process adds lines to."""

    def __init__(self, folder: BucketPath, number: int) -> None:
        self.number, self.data, self.sent = number, b"", 0
        self.path = folder / f"{number:09d}-{uuid.uuid4().hex[:8]}.jsonl"
        self.failing: OSError | None = None
        self.since = 0.0  # when that began

    def send(self) -> None:
        """Write what was added since."""
        if len(self.data) == self.sent:
            return
        data = self.data
        try:
            self.path.store.pipe_file(str(self.path), data)
        except OSError as error:
            self.since = self.since if self.failing else time.monotonic()
            self.failing = error
            raise
        self.sent, self.failing = len(data), None


_LOCK = threading.RLock()
_parts: dict[BucketPath, _Part] = {}


def send() -> None:
    """Return when all lines are written. Raises OSError."""
    with _LOCK:
        for part in _parts.values():
            part.send()


def _send_on() -> None:
    """Write what is added, every SEND seconds."""
    while True:
        time.sleep(SEND)
        with suppress(OSError):  # `append` raises it where it lasts
            send()


def _json_last(name: str) -> tuple[bool, str]:
    """Return the place of a file that is copied: JSON says of others that they are whole."""
    return name.endswith(".json"), name


def _last(paths: list[BucketPath]) -> int:
    """Return the number of the last of numbered objects, 0 for none."""
    return int(paths[-1].name[:9]) if paths else 0
