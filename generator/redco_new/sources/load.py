"""Import one file of a template as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from redco_new import assets
from redco_new.errors import RedcoError


def load_file(path: Path) -> ModuleType:
    """The module in `path`, under a name of its own; it may import redco_runtime.

    Raises RedcoError where the file is missing or fails to import.
    """
    runtime = str(assets.runtime())
    if runtime not in sys.path:
        sys.path.append(runtime)
    name = f"redco_template_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = f"it cannot be imported: {type(error).__name__}: {error}"
        raise RedcoError(str(path), what, "mend the template") from error
    return module
