"""What `examples` of a pipeline returns: rows of the sources that `--data` names, in the order of a run."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...base.messages import UserError, announce, announce_training, feature, print_once, writing
from ...base.examples import Arrays, Example
from ...base.files import cache_of, scheme_of
from ...base.progress import PROGRESS
from ..example_streams import check_share
from ..permutation import permute
from .documents import Maker
from .sources import Source, ask, check_bad, check_ids, parse_sources, sample_of, shape_of
from .rows import Rows, count_bad, open_rows

VERSION = 4  # of what lies in a folder


class Mixture(Sequence[Arrays]):
    """The rows of all sources end to end, and the order in which a run takes them.

    weights: of the sources, where they have any; an epoch of a source is then its own, and a source may
    be done several times over while another is not. Without them an epoch has each row of each once.
    """

    def __init__(
        self,
        parts: Sequence[Sequence[Any]],
        weights: Sequence[float | None] = (),
        make: Callable[[Any, int], Any] = lambda row, index: row,
    ) -> None:
        self.parts, self._weights, self._make = parts, weights, make
        self._ends = np.cumsum([len(part) for part in parts])
        shares = [weight for weight in weights if weight is not None]
        self._in_shares = None
        if shares:
            own = feature("mixtures", "data.text.weighted", "--data")
            self._in_shares = own.Shares(shares, [*map(len, parts)])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: Any) -> Any:
        """Return a row; a list of rows of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = int(np.searchsorted(self._ends, index, side="right"))
        row = self.parts[number][index - (self._ends[number - 1] if number else 0)]
        return self._make(row, index)

    def map(self, make: Callable[[Any, int], Any]) -> "Mixture":
        """Return what `make` makes of each row, when it is asked for, and of its index."""
        before = self._make
        return Mixture(self.parts, self._weights, lambda row, i: make(before(row, i), i))

    def order(self, seed: int, start: int, stop: int) -> np.ndarray:
        """Return the indices of the rows at the places `start` to `stop - 1` of a run: int64."""
        return self._places(seed, start, stop)[0]

    def passes(self, seed: int, start: int, stop: int) -> np.ndarray:
        """Return how often these rows were taken before: the epoch of each, or of its source."""
        return self._places(seed, start, stop)[1]

    def _places(self, seed: int, start: int, stop: int) -> np.ndarray:
        """Return the indices and the passes of the rows at these places: (2, stop - start)."""
        places = np.arange(start, stop)
        if self._in_shares:
            return self._in_shares.rows_at(seed, places)
        return in_epochs(seed, 0, len(self), places)


def in_epochs(seed: int, stream: int, size: int, places: np.ndarray) -> np.ndarray:
    """Return which of `size` rows stand at `places` of epochs laid end to end, and the epochs. Raises UserError where there are none."""
    if size < 1:
        raise UserError("no training examples: see what examples() in pipeline.py returns")
    epochs, offsets = np.divmod(places, size)
    indices = np.empty(len(places), np.int64)
    for epoch in np.unique(epochs):
        now = epochs == epoch
        indices[now] = permute(offsets[now], size, seed, int(epoch), stream)
    return np.stack([indices, epochs])


def read_or_stream(
    settings: Any, maker: Maker, vocabulary: int
) -> tuple[Iterable[Example], Sequence[Example]]:
    """Return the training rows of `--data` and the held-out ones, as `read_examples`.

    With `--streaming` the former are made as the sources are read, and a share is that of their first window.
    """
    if not settings.streaming:
        return read_examples(settings, maker, vocabulary)
    streaming = feature("streaming", "data.text.streaming", "--streaming")
    train, held_out = streaming.stream_examples(settings, maker, vocabulary)
    return train, held_out


def read_examples(
    settings: Any, maker: Maker, vocabulary: int, train: bool = True
) -> tuple[Mixture, Mixture]:
    """Return the training rows of `--data` and the held-out ones, tokenized now if they never were.

    Rows are as of `Rows`. Raises UserError, which names files and lines.
    maker: of documents. vocabulary: ids that the model has. train: whether the former are wanted.
    """
    check_share(settings.held_out)

    def read(sources: Sequence[Source], share: float) -> list[Rows]:
        parts = [rows_of(source, settings, maker, vocabulary, share) for source in sources]
        for source, rows in zip(sources, parts, strict=True):
            announce(f"data: {source.name}: {rows}")
        return parts

    sources = parse_sources("--data", settings.data if train else ())
    rows = read(sources, 0.0 if settings.held_out_data else settings.held_out)
    if settings.held_out_data:
        others = parse_sources("--held-out-data", settings.held_out_data)
        say_shared(sources, others, _content_of)
        held_out = read(others, 0.0)
    else:
        held_out = [one.held_out() for one in rows]
    return Mixture(rows, [source.weight for source in sources]), Mixture(held_out)


def say_shared(
    sources: Sequence[Source], held_out: Sequence[Source], digest: Callable[[Source, str], str]
) -> None:
    """Print which files are held out and trained on too, by a digest of each."""
    trained = {digest(source, file) for source in sources for file in source.files}
    for source in held_out:
        for file in source.files:
            if trained and digest(source, file) in trained:
                announce_training(
                    f"--held-out-data: {file} is trained on too, so that its figures say nothing of other data"
                )


def rows_of(source: Source, settings: Any, maker: Maker, vocabulary: int, share: float) -> Rows:
    """Return the rows of a source to train on, tokenized now if they never were. Raises UserError.

    vocabulary: ids that a model has. share: of the source that is held out.
    """
    import jax  # late: what makes documents is imported where none is

    from ...base.together import of_first

    root = cache_of(settings.token_folder)
    shape = shape_of(settings, share)
    verify = getattr(settings, "verify_data", False)
    with writing(root, option="--token-folder"):
        # Process 0 reads of the files what tells them from others.
        name = of_first("the data", lambda: _key(source, maker, root / "files", verify))
    path = root / name / f"index-{shape.layout}.json"
    if not path.exists():
        facts = {"source": source, "path": path, "vocabulary": vocabulary, "shape": shape}
        facts["folder"] = settings.token_folder
        facts["place"] = jax.process_index(), jax.process_count()
        for answer in ask("build", maker, **facts):
            PROGRESS.at(answer["at"])
            if "say" in answer:
                print_once(answer["say"])
    index = json.loads(path.read_text())
    check_ids(source.name, index["highest"], vocabulary)
    check_bad(source, index["bad"], count_bad(index), settings.skip_bad_rows)
    return open_rows(path)


def _content_of(source: Source, file: str) -> str:
    """Return what a file of a source holds, or a sample of it."""
    if file.startswith("hf:") or scheme_of(file):
        return replace(source, files=(file,)).digest(Path())
    return sample_of(file)


def _key(source: Source, maker: Maker, files: Path, verify: bool) -> str:
    """Return the name of a source's folder: a digest of all that decides its tokens."""
    content = [[VERSION, maker.noun], source.digest(files, verify), maker.key()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]
