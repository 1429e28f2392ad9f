"""Import a file by its path, whatever else has its name, or a module; what it computes is in no trace."""

import ast
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jax

from ..base.messages import UserError

_imported: set[Path] = set()  # files and folders of packages: of models, and what makes them


def import_file(path: Path) -> ModuleType:
    """Return a file as a module, which may import what lies beside it, and in the packages it is in.

    Where something else has its name, or that of its package, as nano_moe.py in the project nano-moe,
    the module gets another, and may import what has the name. Its folder comes first in sys.path while
    it is imported, as that of a script does, and last from then on. Raises UserError where there is
    no such file.
    """
    path = path.resolve()
    if not path.is_file():
        raise UserError(f"{path}: no such file; bring it back, or mend its path in model.py")
    top = _outermost_package(path)
    _imported.add(top)
    _, *names = path.relative_to(top.parent).with_suffix("").parts
    name = _free_name(top)
    other = find_spec(top.stem) if top.is_file() and name != top.stem else None
    with (
        _first_in_path(str(top.parent)),
        _importable(other) if other else nullcontext(),
        jax.ensure_compile_time_eval(),
    ):
        if name not in sys.modules:
            _import_as(name, top)
        return import_module(".".join([name, *(part for part in names if part != "__init__")]))


def import_module(name: str) -> ModuleType:
    """Return the module of a name."""
    with jax.ensure_compile_time_eval():
        module = importlib.import_module(name)
    # A folder without __init__.py is a package without a file.
    top = getattr(sys.modules[name.partition(".")[0]], "__file__", None) or module.__file__
    if top:
        _imported.add(Path(top).parent if Path(top).name == "__init__.py" else Path(top))
    return module


def imported_code() -> dict[str, bytes]:
    """Return module -> what its file holds, of all imported here, and what they import from beside them."""
    files = {name: Path(getattr(m, "__file__", None) or "") for name, m in [*sys.modules.items()]}
    return {
        name: file.read_bytes()
        for name, file in sorted(files.items())
        if any(_is_of(file, top) for top in _imported) and file.is_file()
    }


def _is_of(file: Path, top: Path) -> bool:
    """Return whether a file is in a package, or beside a file that is in none."""
    return file.is_relative_to(top) or (file.parent == top.parent and top.is_file())


def _outermost_package(path: Path) -> Path:
    """Return the folder of the outermost package that a file is in, or the file if it is in none.

    A folder without __init__.py is a package of a file that imports from it by dots.
    """
    imports = [
        node
        for node in ast.walk(ast.parse(path.read_bytes(), str(path)))
        if isinstance(node, ast.ImportFrom)
    ]
    dots, top = max((node.level for node in imports), default=0), path
    while dots > 0 or (top.parent / "__init__.py").is_file():
        top, dots = top.parent, dots - 1
    return top


def _free_name(top: Path) -> str:
    """Return the name of a file or package, with a number where another module has that name."""
    names = (f"{top.stem}_{number}" if number else top.stem for number in count())
    return next(name for name in names if _is_free(name, top))


def _is_free(name: str, top: Path) -> bool:
    """Return whether no module but that of `top` has a name, imported or not."""
    spec = find_spec(name)
    if (
        spec is None
        or spec.submodule_search_locations
        and name not in sys.modules
        and not spec.origin
    ):
        return True  # a folder without code has no claim to its name
    places = [spec.origin, *(spec.submodule_search_locations or ())]
    return any(Path(place).resolve() in (top, top / "__init__.py") for place in places if place)


def _import_as(name: str, top: Path) -> None:
    """Import a file, or a folder as a package, under a name."""
    file = top / "__init__.py" if top.is_dir() else top
    if file.is_file():
        folders = [str(top)] if top.is_dir() else None
        spec = spec_from_file_location(name, file, submodule_search_locations=folders)
    else:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(top)]
    assert spec  # what Python can import always has one
    sys.modules[name] = module = module_from_spec(spec)
    if spec.loader:
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise


@contextmanager
def _first_in_path(folder: str) -> Iterator[None]:
    """Put a folder first in sys.path, and last in the end, unless it was there already."""
    was_there = folder in sys.path
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        if not was_there:
            sys.path.append(folder)


@contextmanager
def _importable(spec: ModuleSpec) -> Iterator[None]:
    """Find a module where it is now, whatever comes first in sys.path."""

    def find(name: str, path: object, target: object = None) -> ModuleSpec | None:
        return spec if name == spec.name else None

    finder = SimpleNamespace(find_spec=find)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
