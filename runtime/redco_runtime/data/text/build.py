"""A source to a folder of shards: by one process, once; the others wait for it."""

import fcntl
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...base.errors import UserError, writing
from ...base.output import announce, show
from ...base.progress import PROGRESS
from .documents import Maker
from .parts import NAMED
from .rows import count_bad
from .shard import Job, layout_name, read_contents
from .sources import RowSettings, Source, check_bad, check_ids
from .worker import make_shards

VERSION = 4  # of what lies in a folder
LOOK = 0.5  # seconds between two looks at what another process makes


class Builder:
    """Makes the shards of sources: tokens once, and their rows for each layout.

    share: of a source that is held out. vocabulary: ids that a model has.
    """

    def __init__(self, settings: RowSettings, maker: Maker, vocabulary: int, share: float) -> None:
        self._settings, self._maker = settings, maker
        self._vocabulary, self._share = vocabulary, share
        self._root = Path(settings.token_folder).expanduser()

    def build(self, source: Source) -> Path:
        """Return the index of a source's rows, which may have been made before. Raises UserError."""
        s = self._settings
        layout = layout_name(s.sequence_length, s.packing, self._share)
        with writing(self._root, option="--token-folder"):
            folder = self._root / self._key(source)
            path = folder / f"index-{layout}.json"
            if not path.exists():
                folder.mkdir(parents=True, exist_ok=True)
                with _alone(folder, source.name):
                    if not path.exists():
                        self._make(source, path, layout)
        index = json.loads(path.read_text())
        check_ids(source.name, index["highest"], self._vocabulary)
        check_bad(source, index["bad"], count_bad(index), s.skip_bad_rows)
        return path

    def _key(self, source: Source) -> str:
        """Return the name of a source's folder: a digest of all that decides its tokens."""
        own = [VERSION, self._maker.noun]
        content = [own, source.digest(self._root / "files"), self._maker.key()]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]

    def _make(self, source: Source, path: Path, layout: str) -> None:
        # Late: redco-new, which has no need of it, imports pipelines.
        from ...base.progress_bar import ProgressBar

        folder = path.parent
        jobs = self._jobs(source, folder)
        before = {job.number: read_contents(job.path(f"{layout}.json")) for job in jobs}
        contents = {number: one for number, one in before.items() if one}
        left = [job for job in jobs if job.number not in contents]
        sizes = {job.number: sum(part.size for part in job.parts) for job in jobs}
        done, said = sum(sizes[number] for number in contents), False
        name = f"making tokens of {source.name}"
        with ProgressBar(name, sum(sizes.values()), "B", done) as shown:
            for job, one in make_shards(left, self._maker):
                PROGRESS.at("the tokens of its data")
                contents[job.number] = one
                check_ids(source.name, one.highest, self._vocabulary)
                shown.update(sizes[job.number])
                if (
                    one.bad_rows > self._settings.skip_bad_rows
                    and len(contents) < len(jobs)
                    and not said
                ):
                    said = True  # before the rest, which may take long, is counted
                    announce(f"data: {one.bad[0]}: the other rows are read, to count the bad ones")
        in_order = [contents[job.number] for job in jobs]
        bad = [row for one in in_order for row in one.bad][:NAMED]
        count = sum(one.bad_rows for one in in_order)
        check_bad(source, bad, count, self._settings.skip_bad_rows)
        if not sum(one.rows for one in in_order):
            raise UserError(
                f"{source.flag}: {source.name} has no {self._maker.noun} to train on: it is empty, or has less "
                "than is held out"
            )
        index = {
            "layout": layout,
            "noun": self._maker.noun,
            "dtype": self._maker.dtype,
            "marks": self._maker.marks,
            "sequence_length": self._settings.sequence_length,
            "packed": self._settings.packing == "on",
            **{
                name: sum(getattr(one, name) for one in in_order)
                for name in ("documents", "again", "empty", "tokens", "marked")
            },
            "highest": max(one.highest for one in in_order),
            "bad": bad,
            "more_bad": count - len(bad),
            "rows": [one.rows for one in in_order],
            "held_out": [one.held_out for one in in_order],
        }
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(index))
        temporary.replace(path)
        for leftover in folder.glob("*.tmp"):  # of a build that was killed
            leftover.unlink(missing_ok=True)

    def _jobs(self, source: Source, folder: Path) -> list[Job]:
        s = self._settings
        options = (s.sequence_length, s.packing, self._share, s.skip_bad_rows)
        shards = source.shards(self._maker.shard)
        return [Job(str(folder), number, parts, *options) for number, parts in enumerate(shards)]


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Wait until no other process, of this host or of those that share the folder, makes its shards."""
    with open(folder / "lock", "w") as file:
        said, ready = False, -1
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not said:
                    show(f"data: waiting for the process that tokenizes {name}")
                said = True
            if ready != (count := len([*folder.glob("*.json")])):
                ready = count  # it goes on, so no deadline is due
                PROGRESS.at("the tokens of its data, which another process makes")
            time.sleep(LOOK)
        yield
