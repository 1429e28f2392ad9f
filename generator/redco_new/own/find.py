"""Import what the user points to: a class or a function, in a file or in a module."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from redco_new.errors import RedcoError
from redco_new.request.names import TAKEN, package_name
from redco_new.request.own_class import is_file
from redco_new.sharding import error_location, error_message


@dataclass(frozen=True)
class Found:
    """A name that was imported.

    module: that it is in.  folder: of its file, relative to the project's; "" for a module.
    """

    value: Any
    name: str
    module: str
    folder: str


def find(where: str, reference: str, folder: Path, project: str) -> Found:
    """What `reference` names; its path, if it has one, is relative to `folder`, the project's.

    Raises RedcoError, which names `where`: the flag.
    """
    source, _, name = reference.rpartition(":")
    if is_file(reference):
        module = import_file(where, (folder / source).resolve(), project)  # it may not exist yet
        beside = Path(source).parent.as_posix()
    else:
        module, beside = import_module(where, source), ""
    if not hasattr(module, name):
        raise missing(where, name, source, module)
    return Found(getattr(module, name), name, module.__name__, beside)


def missing(where: str, name: str, source: str, module: ModuleType) -> RedcoError:
    """The error for a name that a module has not, with the near ones of those that it defines."""
    here = [
        key
        for key, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__
    ]
    near = difflib.get_close_matches(name, here, n=3, cutoff=0.4)
    known = f"choose one of {', '.join(here)}" if here else "define it there"
    todo = f"did you mean {' or '.join(near)}?" if near else known
    shown = Path(source).name if is_file(f"{source}:{name}") else source
    return RedcoError(where, f"{shown} has no {name}", todo)


def import_file(where: str, path: Path, project: str) -> ModuleType:
    """The module that a file is, which then has the name of the file. Raises RedcoError."""
    name = path.stem
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")])
        todo = f"did you mean {' or '.join(near)}?" if near else "check the path"
        raise RedcoError(where, f"no file {_typed(path)}", todo)
    if name in TAKEN or name in sys.stdlib_module_names or name == package_name(project):
        what = f"{path.name} would hide the module {name}, which the project needs"
        raise RedcoError(where, what, "rename the file")
    sys.path.insert(0, str(path.parent))  # the file may import what lies beside it
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the project's model.py imports it by this name
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing in the user's folder
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        del sys.modules[name]
        raise unimportable(path.name, error) from error
    finally:
        sys.dont_write_bytecode = wrote
    return module


def import_module(where: str, name: str) -> ModuleType:
    """The module of that name. Raises RedcoError."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            todo = "install it where redco-new is, or give a file: --model path/to/file.py:NAME"
            raise RedcoError(where, f"no module {error.name}", todo) from error
        raise unimportable(name, error) from error
    except (Exception, SystemExit) as error:
        raise unimportable(name, error) from error


def unimportable(name: str, error: BaseException) -> RedcoError:
    """The error for the user's code that fails while it is imported: its line, and what it says."""
    if isinstance(error, SyntaxError):
        text = (error.text or "").strip()
        return RedcoError(
            f"{error.filename}:{error.lineno}", f"{error.msg}: `{text}`", "mend that line"
        )
    return RedcoError(
        error_location(error, name),
        f"it cannot be imported: {error_message(error)}",
        "mend that line",
    )


def check_callable(where: str, found: Found) -> None:
    """Raise RedcoError if what was found cannot be called without arguments."""
    try:
        inspect.signature(found.value).bind()
    except (TypeError, ValueError) as error:
        what = f"{found.name} is no function that can be called without arguments: {error}"
        raise RedcoError(where, what, "point to one that gives (arguments, inputs)") from error


def _typed(path: Path) -> str:
    """A path as a person would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
