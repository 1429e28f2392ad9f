"""The shards of a source in a bucket: each host sends those that it makes, and takes the others from there.

Those of one run make a part each; runs that come apart take shards as they go, each by an object that is made on
condition that it is new. There are no locks: a shard is the same whoever makes it, so that a host makes those itself
that do not come.
"""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..text.documents import Contents, Maker
from .build import LONG_LOOK, Made
from .shard import Job, read_contents

PATIENCE = 600.0  # seconds, at least, that shards of others may take: one takes a core some minutes
BRINGING = {"at": "the tokens of its data, which other hosts make"}


@dataclass(frozen=True)
class Shared:
    """The folder of a source in a bucket.

    there: it, a BucketPath. maker: of the documents.
    """

    there: Any
    maker: Maker

    def take(self, job: Job) -> bool:
        """Return whether a shard is this host's to make: no other has sent it, or has taken it within PATIENCE."""
        claim, host = self._claim(job), f"{socket.gethostname()} {job.root}".encode()
        if not claim.create(host):
            try:
                since = claim.store.modified(str(claim)).timestamp()
                if claim.read_bytes() != host and time.time() - since < PATIENCE:
                    return False
                claim.write_bytes(host)
            except FileNotFoundError:  # it is sent meanwhile
                return False
        if sent := (self.there / self._names(job)[-1]).exists():
            claim.unlink(missing_ok=True)
        return not sent

    def bring(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Copy all that it has, if it has any, to `folder` of this machine."""
        with suppress(FileNotFoundError):
            yield from (BRINGING for _ in self.there.bring(folder))

    def receive(self, jobs: Sequence[Job], seconds: float, source: str) -> Made:
        """Copy the shards that other hosts send; return what those have that came in time.

        A shard comes in time within PATIENCE of the one before, or `seconds` if they are more: those of the own part.
        source: its name, for people.
        """
        contents: dict[int, Contents] = {}
        since, patience = time.monotonic(), max(PATIENCE, seconds)
        for job in jobs:
            *_, last = names = self._names(job)
            while not (came := (self.there / last).exists()):
                if time.monotonic() - since > patience:
                    break
                yield BRINGING
                time.sleep(LONG_LOOK)
            if came:
                yield from (BRINGING for _ in self.there.bring(job.root, names))
                since = time.monotonic()
            if one := read_contents(job.path(f"{job.shape.layout}.json")):
                contents[job.number] = one
        if late := len(jobs) - len(contents):
            why = f"did not come from other hosts within {patience:.0f} s: they are made here"
            yield {**BRINGING, "say": f"data: {late} of the shards of {source} {why}"}
        return contents

    def send(self, job: Job, one: Contents) -> None:
        """Write a shard that is here to the bucket, unless more of its rows than may are bad."""
        if one.bad_rows <= job.shape.skip_bad_rows:
            self.there.fill(job.root, self._names(job))
            self._claim(job).unlink(missing_ok=True)

    def _claim(self, job: Job) -> Any:
        """Return the object that says who makes a shard, beside the folder, of which all is copied."""
        return self.there.parent / f"{self.there.name}-claims" / self._names(job)[-1]

    def _names(self, job: Job) -> list[str]:
        """Return the files of a shard, as they are named from the folder, in the order in which they are written."""
        layout = job.shape.layout
        own = ["tokens", *["marks"] * bool(self.maker.marks), "lengths.npy", "json"]
        kinds = (*own, f"{layout}.pieces.npy", f"{layout}.rows.npy", f"{layout}.json")
        return [str(job.path(kind).relative_to(job.root)) for kind in kinds]
