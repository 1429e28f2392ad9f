"""Import Python text as a module."""

from __future__ import annotations

import linecache
import sys
from types import ModuleType

from redco_new.render import assets
from redco_new.errors import RedcoError
from redco_new.render.python import MEND


def use_runtime() -> None:
    """Make redco_runtime what the generator has: never that of a project that the environment happens to have."""
    runtime = str(assets.runtime())
    if sys.path[0] != runtime:
        sys.path.insert(0, runtime)


def load_text(path: str, text: str) -> ModuleType:
    """Return `text` imported as a module, which tracebacks call `path`; it may import redco_runtime.

    Raises RedcoError where it fails to import.
    """
    use_runtime()
    module = ModuleType(f"redco_written_{path.replace('/', '_').removesuffix('.py')}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses look their module up
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except ModuleNotFoundError as error:
        what = f"it cannot be imported: {error}"
        raise RedcoError(path, what, f"pip install {str(error.name).partition('.')[0]}") from error
    except Exception as error:
        what = f"it cannot be imported: {type(error).__name__}: {error}"
        raise RedcoError(path, what, MEND) from error
    return module
