"""Import what the user points to: a class or a function, in a file or in a module."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from redco_plan import error_location, error_message, install_advice

from redco_new.errors import RedcoError
from redco_new.render.execute import use_runtime
from redco_new.request.own_class import is_file

# The version of PyTorch whose exported programs redco reads; pyproject.toml asks for it too.
TORCH, EXTRA = "2.13", "redco-new[torch]"
# How similar a name must be to be suggested, of 1: looser than difflib's 0.6, since only a few
# names of one module compete, so that a far guess helps more than a list of all.
NAME_CUTOFF = 0.4


@dataclass(frozen=True)
class Reference:
    """A class or function of the user's own, imported.

    value: the class or function itself
    name: its name in its module
    module: the module that it is in
    file: the module's file, relative to the project; "" for an installed module
    make: the function that makes modules of the class, where the user points to that
    """

    value: Any
    name: str
    module: str
    file: str
    make: Callable[..., Any] | None = None


def find_reference(where: str, reference: str, folder: Path) -> Reference:
    """Import what `reference` names, FILE.py:NAME or MODULE:NAME.

    where: the flag that `reference` was given with
    folder: of the project, which the path of a file is relative to

    Raises RedcoError where there is no such file, module or name, or it cannot be imported.
    """
    source, _, name = reference.rpartition(":")
    in_file = is_file(reference)
    if in_file:
        module = _import_file(where, (folder / source).resolve())  # the folder may not exist yet
    else:
        module = _import_module(where, source)
    if not hasattr(module, name):
        raise _missing_name(where, name, source, module)
    return Reference(getattr(module, name), name, module.__name__, source if in_file else "")


def class_name(function: str) -> str:
    """Return the name that what a function makes is printed by: `Resnet18` of resnet18."""
    return "".join(part[:1].upper() + part[1:] for part in function.split("_"))


def _missing_name(where: str, name: str, source: str, module: ModuleType) -> RedcoError:
    """Return the error for a name that a module lacks, with the similar ones that it defines."""
    names = [
        key
        for key, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__
    ]
    near = difflib.get_close_matches(name, names, n=3, cutoff=NAME_CUTOFF)
    others = f"choose one of {', '.join(names)}" if names else "define it there"
    todo = f"did you mean {' or '.join(near)}?" if near else others
    shown = Path(source).name if is_file(f"{source}:{name}") else source
    return RedcoError(where, f"{shown} has no {name}", todo)


def _import_file(where: str, path: Path) -> ModuleType:
    """Import a file as the project does, anew each time. Raises RedcoError if that fails."""
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")])
        todo = f"did you mean {' or '.join(near)}?" if near else "check the path"
        raise RedcoError(where, f"no file {_relative_path(path)}", todo)
    use_runtime()
    from redco_runtime.nn.user_class import import_file

    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == str(path):
            del sys.modules[name]
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing in the user's folder
    try:
        return import_file(path)
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise _import_failure(path.name, error) from error
    finally:
        sys.dont_write_bytecode = wrote


def _import_module(where: str, name: str) -> ModuleType:
    """Import an installed module. Raises RedcoError if that fails."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            todo = f"{install_advice(error)}; or give a file: --model path/to/file.py:NAME"
            raise RedcoError(where, f"no module {error.name}", todo) from error
        raise _import_failure(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failure(name, error) from error


def _import_failure(name: str, error: BaseException) -> RedcoError:
    """Return the error for the user's code that fails while it is imported, with its line."""
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return without_torch()
    if isinstance(error, SyntaxError):
        text = (error.text or "").strip()
        return RedcoError(
            f"{error.filename}:{error.lineno}", f"{error.msg}: `{text}`", "mend that line"
        )
    return RedcoError(
        error_location(error, name),
        f"it cannot be imported: {error_message(error)}",
        install_advice(error) if isinstance(error, ModuleNotFoundError) else "mend that line",
    )


def without_torch(there: str = "") -> RedcoError:
    """Return the error where the PyTorch that a class needs is not installed. there: what is instead."""
    what = f"a PyTorch class needs {EXTRA} (torch {TORCH}){there and f', and {there} is here'}"
    return RedcoError("--model", what, f"pip install '{EXTRA}'")


def check_callable(where: str, reference: Reference) -> None:
    """Raise RedcoError if `reference` cannot be called without arguments."""
    try:
        inspect.signature(reference.value).bind()
    except (TypeError, ValueError) as error:
        what = f"{reference.name} is no function that can be called without arguments: {error}"
        raise RedcoError(where, what, "point to one that gives (arguments, inputs)") from error


def _relative_path(path: Path) -> str:
    """Return `path` relative to the working folder, or as it is where it lies elsewhere."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
