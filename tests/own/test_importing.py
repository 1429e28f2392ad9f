"""Files imported by their path: names that others have, and what lies beside a file."""

import sys

import jax
import jax.numpy as jnp
import pytest
from redco_runtime.nn.user_class import import_file, import_module, imported_code

NET = "class Net:\n    width = {}\n"


@pytest.fixture(autouse=True)
def as_before():
    """sys.path and sys.modules as they were."""
    path, modules = [*sys.path], {**sys.modules}
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]


def write(folder, files):
    """Write {path: text} into a folder."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.mark.parametrize("name", ["optax", "json", "redco_runtime", "nets"])
def test_a_file_may_have_any_name(tmp_path, name):
    before = sys.modules.get(name)
    write(tmp_path, {f"{name}.py": NET.format(3)})
    module = import_file(tmp_path / f"{name}.py")
    assert module.Net.width == 3
    assert sys.modules[module.Net.__module__] is module
    assert import_file(tmp_path / f"{name}.py") is module
    assert before is None or sys.modules[name] is before


def test_a_file_imports_the_package_of_its_own_name(tmp_path, monkeypatch):
    write(
        tmp_path, {"installed/some_moe/__init__.py": "", "installed/some_moe/net.py": NET.format(7)}
    )
    write(tmp_path, {"some_moe.py": "from some_moe.net import Net\n"})
    monkeypatch.syspath_prepend(tmp_path / "installed")
    assert import_file(tmp_path / "some_moe.py").Net.width == 7


def test_files_of_the_same_name_are_apart(tmp_path):
    write(tmp_path, {f"{number}/nets.py": NET.format(number) for number in range(3)})
    paths = [tmp_path / str(number) / "nets.py" for number in range(3)]
    assert [import_file(path).Net.width for path in paths] == [0, 1, 2]


def test_a_file_imports_what_lies_beside_it(tmp_path):
    late = "def late():\n    import later\n    return later.WIDTH\n"
    write(tmp_path, {"nets.py": f"from layers_beside import Net\n{late}"})
    write(tmp_path, {"layers_beside.py": NET.format(4), "later.py": "WIDTH = 5\n"})
    module = import_file(tmp_path / "nets.py")
    assert (module.Net.width, module.late()) == (4, 5)
    assert {module.__name__, "layers_beside", "later"} <= imported_code().keys()
    assert (sys.path[-1], sys.path.count(str(tmp_path))) == (str(tmp_path), 1)


@pytest.mark.parametrize("package", ["zoo", "optax"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_file_imports_from_its_package(tmp_path, package, marked):
    files = {
        f"{package}/deep/nets.py": "from ..layers import Net\n",
        f"{package}/layers.py": NET.format(6),
    }
    if marked:
        files |= {
            f"{package}/__init__.py": "SEEN = 1\n",
            f"{package}/deep/__init__.py": "from .nets import Net\n",
        }
    write(tmp_path, files)
    module = import_file(tmp_path / package / "deep" / "nets.py")
    assert module.Net.width == 6
    assert module.__package__.endswith(".deep")


def test_what_a_file_computes_is_in_no_trace(tmp_path):
    write(tmp_path, {"table.py": "import jax.numpy as jnp\nTABLE = jnp.arange(3)\n"})
    add = jax.jit(lambda x: x + import_file(tmp_path / "table.py").TABLE)
    assert add(jnp.ones(3)).sum() == add(jnp.ones((2, 3))).sum() / 2 == 6


def test_a_file_that_fails_leaves_no_module(tmp_path):
    write(tmp_path, {"failing_net.py": "1 / 0\n"})
    with pytest.raises(ZeroDivisionError):
        import_file(tmp_path / "failing_net.py")
    assert "failing_net" not in sys.modules


def test_a_module_of_a_folder_without_init_is_imported_code(tmp_path, monkeypatch):
    write(tmp_path, {"bare_zoo/nets.py": NET.format(2), "beside_zoo.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    assert import_module("bare_zoo.nets").Net.width == 2
    assert "bare_zoo.nets" in imported_code()
