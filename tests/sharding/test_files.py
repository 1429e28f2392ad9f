"""The files of the engine: what they import, and who imports them."""

import ast
import re
import sys
from importlib.util import resolve_name
from pathlib import Path

import redco_plan

FOLDER = Path(redco_plan.__file__).parent
PACKAGE = "redco_plan"
FOLDERS = {"apart", "rules"}


def imports(path):
    """(module, names) of each import of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            folder = ".".join(path.relative_to(FOLDER.parent).parts[:-1])
            name = "." * node.level + (node.module or "")
            yield resolve_name(name, folder), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def stages():
    """The files in the order in which README.md has them, each once; a folder for what is in it."""
    named = re.findall(r"`(\w+)(?:\.py|/)`", (FOLDER / "README.md").read_text())
    return list(dict.fromkeys(named))


def test_the_engine_imports_jax_and_numpy_only():
    modules = {module for path in FOLDER.rglob("*.py") for module, _ in imports(path)}
    roots = {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names)
    assert roots == {"jax", "numpy", PACKAGE}


def test_the_readme_has_every_file():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert sorted(stages()) == sorted(files | FOLDERS)


def test_a_file_imports_from_earlier_stages_only():
    order = {name: i for i, name in enumerate(stages())}
    for name, place in order.items():
        own = (FOLDER / name).glob("*.py") if name in FOLDERS else [FOLDER / f"{name}.py"]
        for path in own:
            for module, _ in imports(path):
                if module.startswith(f"{PACKAGE}.") and (other := module.split(".")[1]) != name:
                    assert order[other] < place, (name, other)


def test_what_is_printed_into_projects_needs_nothing_else():
    modules = {m for path in (FOLDER / "apart").glob("*.py") for m, _ in imports(path)}
    rest = [m for m in modules if m.split(".")[0] not in {"jax", *sys.stdlib_module_names}]
    assert all(f"{module}.".startswith(f"{PACKAGE}.apart.") for module in rest)


def test_the_generator_imports_from_the_face_only():
    for path in FOLDER.parent.rglob("*.py"):
        if FOLDER not in path.parents:
            for module, names in imports(path):
                assert not (module or "").startswith(f"{PACKAGE}."), path
                if module == PACKAGE:
                    assert set(names) <= set(redco_plan.__all__), path
