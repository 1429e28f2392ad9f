"""What `examples` of a pipeline returns, of the sources that `--data` names."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...base.examples import Example
from ...base.errors import feature, writing
from ...base.output import announce, announce_training, print_once
from ...base.paths import cache_of, scheme_of
from ...base.progress import PROGRESS
from ..example_streams import check_share
from .documents import Maker
from .request import ask
from .mixture import Mixture
from .rows import Rows, count_bad, open_rows
from .sources import Source, check_bad, check_ids, parse_sources, sample_of, shape_of

VERSION = 4  # of what lies in a folder


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
