"""Files of pictures in a folder, at any depth, and what else lies there."""

import os
from pathlib import Path

from .opening import FILES


def files_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the pictures in a folder and in those within it, in order, and the other files.

    What begins with a dot is of other programs, such as .ipynb_checkpoints. A link to a folder, which may be one
    that it is in, is not followed: it is among the others.
    """
    pictures, others = list[Path](), list[Path]()
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        others += [link for name in folders if (link := Path(where, name)).is_symlink()]
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(where, name)
            (pictures if path.suffix.lower() in FILES else others).append(path)
    return pictures, others
