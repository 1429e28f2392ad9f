"""Import Python text as a module."""

from __future__ import annotations

import linecache
import sys
from types import ModuleType

from redco_new.render import assets
from redco_new.errors import RedcoError


def use_runtime() -> None:
    """Make redco_runtime importable, as the generator has it."""
    runtime = str(assets.runtime())
    if runtime not in sys.path:
        sys.path.append(runtime)


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
    except Exception as error:
        what = f"it cannot be imported: {type(error).__name__}: {error}"
        raise RedcoError(path, what, "mend the template") from error
    return module
