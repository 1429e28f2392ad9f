"""The rows of a source: made by a process that reads data where they are not there, and read from its folder."""

import hashlib
import json
from pathlib import Path

from ...base.errors import writing
from ...base.output import show
from ...base.progress import PROGRESS
from .documents import Maker
from .request import ask
from .rows import Rows, count_bad, open_rows
from .sources import TextSettings, Source, check_bad, check_ids, shape_of

VERSION = 4  # of what lies in a folder


def rows_of(
    source: Source, settings: TextSettings, maker: Maker, vocabulary: int, share: float
) -> Rows:
    """Return the rows of a source to train on, tokenized now if they never were. Raises UserError.

    vocabulary: ids that a model has. share: of the source that is held out.
    """
    root = Path(settings.token_folder).expanduser()
    shape = shape_of(settings, share)
    with writing(root, option="--token-folder"):
        path = root / _key(source, maker, root / "files") / f"index-{shape.layout}.json"
    if not path.exists():
        facts = {"source": source, "path": path, "vocabulary": vocabulary, "shape": shape}
        for answer in ask("build", maker, **facts):
            PROGRESS.at(answer["at"])
            if "say" in answer:
                show(answer["say"])
    index = json.loads(path.read_text())
    check_ids(source.name, index["highest"], vocabulary)
    check_bad(source, index["bad"], count_bad(index), settings.skip_bad_rows)
    return open_rows(path)


def _key(source: Source, maker: Maker, files: Path) -> str:
    """Return the name of a source's folder: a digest of all that decides its tokens."""
    content = [[VERSION, maker.noun], source.digest(files), maker.key()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]
