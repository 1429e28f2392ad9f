"""What `--data` names: files and data sets, with weights, and the process that reads them: its own, as light as a tokenizer, since it imports no JAX and no project."""

import functools
import glob
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from ...base.files import any_path, check_paths, path_of, scheme_of
from ...base.messages import UserError, feature, few, listed
from .documents import NAMED, Maker, Shape

RUNTIME = __name__.removesuffix(".data.text.sources")

Answers = Generator[dict[str, Any], None, None]
# Of a file that is identified by them: bytes read at once, and at how many places.
BLOCK, SAMPLES = 4096, 16
TABLES = (".csv", ".tsv")


def ask(task: str, maker: Maker | None = None, **facts: Any) -> Answers:
    """Yield the answers of a task, of those in prepare/program.py. Raises UserError.

    facts: its arguments. A maker whose tokenizer is code of this program works in it.
    """
    if maker and not maker.portable:
        yield from import_module(f"{RUNTIME}.data.prepare.program").task_of(task)(maker, **facts)
        return
    with Reader(maker) as reader:
        yield from reader.ask(task, **facts)


class Reader(AbstractContextManager["Reader"]):
    """A process that reads data, until `with` ends; Ctrl-C of a terminal is not for it. variables: of its environment."""

    def __init__(self, maker: Maker | None, **variables: str) -> None:
        path = [str(Path(__file__).parents[__name__.count(".")]), os.environ.get("PYTHONPATH", "")]
        own = {"PYTHONPATH": os.pathsep.join(filter(None, path)), **variables}
        self.pipe, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{RUNTIME}.data.prepare.program", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,  # what a library prints is no result of this program
                stderr=sys.stderr,
                env={**os.environ, **own},
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        self._send(maker)

    def ask(self, task: str, **facts: Any) -> Answers:
        """Yield what it answers to a task. Raises UserError."""
        self._send((task, facts))
        with suppress(EOFError, OSError):  # as of a message that is cut short
            while answer := self.pipe.recv():
                if isinstance(answer, UserError):
                    raise answer
                yield answer
            return
        code = self.process.wait()
        todo = "mend what is said above, of your data or of pipeline.py"
        if code == -9:
            todo = "a lack of memory gives that: the same command goes on from what was made"
        raise UserError(f"the process that reads --data has ended with {code}: {todo}")

    def _send(self, message: Any) -> None:
        with suppress(OSError):  # where it has ended, which is seen as it does not answer
            self.pipe.send(message)

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def shape_of(settings: Any, share: float) -> Shape:
    """Return the shape of rows of which a share is held out. settings: the section `data` of config.py."""
    return Shape(settings.sequence_length, settings.packing, share, settings.skip_bad_rows)


@dataclass(frozen=True)
class Source:
    """An argument of --data."""

    flag: str  # the one that names it, for messages
    name: str  # as it was written, without its weight
    files: tuple[str, ...]  # their paths, sorted; of a data set, its name alone
    weight: float | None  # its share of the rows, relative to the others; None: as many as it has

    def digest(self, folder: Path, verify: bool = False) -> str:
        """Return a digest of its files: of their sizes, their times and samples, or, to `verify`, of all their bytes.

        folder: remembers those of files that were read, and did not change since.
        """
        with ThreadPoolExecutor() as pool:
            return _digest_of([*pool.map(lambda file: _content(file, folder, verify), self.files)])


def parse_sources(flag: str, names: Sequence[str]) -> list[Source]:
    """Return the sources that the arguments of a flag name: PATTERN or hf:NAME[:SPLIT], with =WEIGHT or not.

    Raises UserError for what is not there, empty, or weighed beside something that is not.
    """
    sources = [_parse(flag, name) for name in names]
    without = [source.name for source in sources if source.weight is None]
    if 0 < len(without) < len(sources):
        raise UserError(f"{flag}: {few(without)}: give a weight, =0.5, to all of them or to none")
    if sources and not without:
        feature("mixtures", "data.text.weighted", f"{flag}: {names[0]}")  # before anything is read
    return sources


def check_bad(source: Source, bad: Sequence[str], count: int, most: int) -> None:
    """Raise UserError where more rows of a source than `most` are bad. bad: where and why, of the first of `count`."""
    if count > most:
        number = f"{count:,} bad rows" if count > 1 else "a bad row"
        title = f"{source.flag}: {source.name} has {number}, and --skip-bad-rows is {most}:"
        named = [*bad[:NAMED], *([f"and {count - NAMED:,} more"] if count > NAMED else [])]
        todo = "Mend the file, or leave out so many with --skip-bad-rows."
        raise UserError(listed(title, named, todo))


def check_ids(name: str, highest: int, vocabulary: int) -> None:
    """Raise UserError where a tokenizer makes an id of a source that the model does not have."""
    if highest >= vocabulary:
        raise UserError(
            f"--tokenizer: it makes the id {highest} of {name}, and the model has "
            f"{vocabulary}: give the model's own tokenizer, or a vocab_size above {highest}"
        )


def _parse(flag: str, text: str) -> Source:
    name, _, tail = text.rpartition("=")
    weight: float | None = None
    try:
        weight = float(tail) if name else None
    except ValueError:
        pass
    if weight is None:
        name = text
    elif not 0 < weight < float("inf"):
        raise UserError(f"{flag}: {text}: give a weight above 0")
    if name.startswith("hf:"):
        return Source(flag, name, (name,), weight)
    check_paths(flag, name, any_path)
    files = _sizes(name)
    if not files:
        raise UserError(
            f"{flag}: {name}: there is no such file: give the path of one, or a pattern in quotes, 'FOLDER/*.jsonl'"
        )
    for file, size in files.items():
        if size is None:
            raise UserError(
                f"{flag}: {file} is a folder: name its files, as '{file}/*.jsonl', or, if datasets "
                f"reads it, hf:{file}"
            )
        if file.lower().endswith(TABLES):
            raise UserError(
                f"{flag}: {file} is a table, which is not read: write its rows as JSONL, an object a line, or "
                "name it .txt, where it is to be learned as it is, its header and all"
            )
        if not scheme_of(file) and not os.access(file, os.R_OK):
            raise UserError(f"{flag}: {file} cannot be read: mend its rights")
        if not size:
            raise UserError(f"{flag}: {file} is empty: leave it out")
    return Source(flag, name, tuple(files), weight)


def _sizes(name: str) -> dict[str, int | None]:
    """Return the bytes of each file that a pattern names, in order; None for a folder."""
    if scheme_of(name):
        return path_of(name).matches()
    paths = sorted(glob.glob(os.path.expanduser(name), recursive=True))
    return {path: None if os.path.isdir(path) else os.path.getsize(path) for path in paths}


def sample_of(file: str) -> str:
    """Return a digest of some of what a file of this machine holds, of its size and what lies spread over it."""
    with open(file, "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        digest = hashlib.sha256(str(size).encode())
        for place in range(SAMPLES):
            opened.seek((size - BLOCK) * place // (SAMPLES - 1) if size > BLOCK else 0)
            digest.update(opened.read(BLOCK))
    return digest.hexdigest()


def _content(file: str, folder: Path, verify: bool) -> str:
    """Return a digest of a file. One that a former version read is read again where its time changed."""
    if file.startswith("hf:"):
        return _fingerprint(file)
    if scheme_of(file):
        return _digest_of([file, *path_of(file).version()])
    stat, path = os.stat(file), os.path.abspath(file)
    note = folder / f"{_digest_of(path)}.json"
    seen = [path, stat.st_size, stat.st_mtime_ns, stat.st_ino]
    try:
        *before, digest = json.loads(note.read_text())
        if before == seen:
            return str(digest)
        verify |= before[:2] == seen[:2]
    except (OSError, ValueError):
        pass
    if not verify:
        return _digest_of([*seen[1:3], sample_of(file)])
    with open(file, "rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    temporary = note.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps([*seen, digest]))
    temporary.replace(note)
    return digest


@functools.cache
def _fingerprint(name: str) -> str:
    """Return what datasets calls the content of a data set."""
    (answer,) = ask("fingerprint", name=name)
    return str(answer["fingerprint"])


def _digest_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
