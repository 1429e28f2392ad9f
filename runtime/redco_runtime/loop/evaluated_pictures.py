"""What --data of evaluate.py names where a model learns from pictures: all of a folder, or of tables."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..base.messages import UserError, few

FOLDER, TABLES = FIELDS = ("image_folder", "image_data")  # of the section `data`
METAVAR, HELP = "FOLDER", "all pictures of a folder, or of tables"


def with_files(data: Any, files: Sequence[str]) -> Any:
    """Return the section `data` that reads these. Raises UserError for several folders."""
    has_tables = hasattr(data, TABLES)
    tables = files if has_tables and not Path(files[0]).is_dir() else ()
    if len(files) > 1 and not tables:
        raise UserError(f"--data: {few(files)}: give one folder of pictures")
    rest = {TABLES: (*tables,)} if has_tables else {}
    return replace(data, **{FOLDER: "" if tables else files[0]}, **rest)


def read_all(pipeline: Any, config: Any) -> Sequence[Any]:
    """Return all examples, whose pictures are as they are, once each. Raises UserError."""
    data = replace(config.data, shift=0) if hasattr(config.data, "shift") else config.data
    try:
        halves = pipeline.examples(replace(config, data=data))
    except UserError as error:  # which names the flags of train
        flags = str(error).replace("--image-folder", "--data").replace("--image-data", "--data")
        raise UserError(flags) from None
    return [example for half in halves for example in half]
