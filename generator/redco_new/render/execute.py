"""Import Python text as a module."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from redco_new.errors import RedcoError
from redco_new.render import assets
from redco_new.render.own_runtime import AT_HOME
from redco_new.render.python import MEND


def use_runtime() -> None:
    """Make redco_runtime what the generator has: never that of a project that the environment happens to have."""
    runtime = str(assets.runtime())
    if sys.path[0] != runtime:
        sys.path.insert(0, runtime)


class RuntimeOf(MetaPathFinder, Loader):
    """On sys.meta_path: makes redco_runtime the runtime of a project whose package can be imported."""

    def __init__(self, package: str) -> None:
        self._runtime = f"{package}.runtime"

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to import a module of redco_runtime; None for others, and for what the project does not carry."""
        if name.partition(".")[0] != AT_HOME or find_spec(self._own(name)) is None:
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the project's module, which goes by both names."""
        module = import_module(self._own(spec.name))
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module what it is."""
        module.__spec__ = self._spec

    def _own(self, name: str) -> str:
        return name.replace(AT_HOME, self._runtime, 1)


@contextmanager
def importable(project: Path, package: str, *, its_runtime: bool = False) -> Iterator[None]:
    """Make the package of the folder `project` importable, within this context alone; nothing is written there.

    its_runtime: whether redco_runtime is the project's own, too.
    """
    hidden = (package, AT_HOME) if its_runtime else (package,)
    finders = [RuntimeOf(package)] if its_runtime else []
    modules_before = _remove_modules(hidden)
    sys.path.insert(0, str(project))
    sys.meta_path[:0] = finders
    flag_before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = flag_before
        sys.path.remove(str(project))
        for finder in finders:
            sys.meta_path.remove(finder)
        _remove_modules(hidden)
        sys.modules.update(modules_before)


def _remove_modules(packages: Collection[str]) -> dict[str, ModuleType]:
    """Remove the modules of these packages from those that are imported, and return them."""
    names = [x for x in sys.modules if x.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}


def load_weights(package: str, texts: Mapping[str, str]) -> tuple[ModuleType, ModuleType]:
    """Return the model.py and the weights.py of `texts`, imported; the second imports the first from `package`.

    Raises RedcoError where one fails to import.
    """
    model = load_text(f"{package}/model.py", texts["model.py"])
    names = {package: ModuleType(package), f"{package}.model": model}
    hidden = {name: sys.modules.get(name) for name in names}
    try:
        sys.modules.update(names)
        return model, load_text(f"{package}/weights.py", texts["weights.py"])
    finally:
        for name, module in hidden.items():
            sys.modules.pop(name)
            if module:
                sys.modules[name] = module


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
        # as Python imports it: without the features that this file has of the future
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    except ModuleNotFoundError as error:
        what = f"it cannot be imported: {error}"
        raise RedcoError(path, what, f"pip install {str(error.name).partition('.')[0]}") from error
    except Exception as error:
        what = f"it cannot be imported: {type(error).__name__}: {error}"
        raise RedcoError(path, what, MEND) from error
    return module
