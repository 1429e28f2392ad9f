"""The class of a model, which all processes of a run must have alike."""

from collections.abc import Mapping

import jax

from ..base.errors import UserError, few
from .agreement import differing, digest


def check_same_code(files: Mapping[str, bytes]) -> None:
    """Raise UserError where a process has another class of the model, or of what that imports.

    files: module -> what its file holds.
    """
    if jax.process_count() == 1:
        return
    code = {name: digest(text.decode(errors="replace")) for name, text in files.items()}
    others, column = differing("the code", [digest([*code]), *code.values()])
    what = (
        f"has another {[*code][column - 1]} than in" if column else "imports other modules than in"
    )
    if others:
        raise UserError(
            f"the class of the model {what} process 0, in process {few(others)}: "
            "give all hosts the same files"
        )
