"""Where a user's project fails: its own line, and what Python says, in one."""

import os
import sysconfig
import traceback
from pathlib import Path

GENERATOR = f"{Path(__file__).parents[2]}{os.sep}"
INSTALLED = {"site-packages", "dist-packages"}
LONGEST = 600  # characters of an error: a dozen lines of a terminal


def in_one_line(error: BaseException, project: str) -> str:
    """Return an error in one line; UserError is of the runtime, and says all by itself."""
    name, text = type(error).__name__, " ".join(str(error).split()).replace(project + os.sep, "")
    text = text if len(text) <= LONGEST else text[:LONGEST] + " ..."
    return text if name == "UserError" else f"{name}: {text}".removesuffix(": ")


def locate_fault(error: BaseException, project: str) -> str:
    """Return path:line of the user's innermost line that the error went through; "" if none.

    The path is relative to the project, or absolute for what is not in it.
    """
    frames = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno or 1))
    for file, line in reversed(frames):
        if is_users(file, project):
            path = os.path.relpath(file, project)
            return f"{os.path.realpath(file) if path.startswith('..') else path}:{line}"
    return ""


def is_users(file: str, project: str) -> bool:
    """Tell whether a file is the user's: not Python's, installed, the runtime's, or redco's."""
    parts = Path(os.path.relpath(file, project)).parts
    foreign = file.startswith((GENERATOR, sysconfig.get_path("stdlib") + os.sep))
    foreign = foreign or parts[1:2] == ("runtime",) or bool(INSTALLED & {*parts})
    return os.path.isabs(file) and not foreign  # neither <string> nor what a module was compiled of
