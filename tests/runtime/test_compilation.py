import os
import warnings
from pathlib import Path

import jax
import pytest

from redco_runtime.step import xla

FLAGS = (xla.FOLDER, xla.SECONDS)
ENABLED = xla.ENABLED
ARE_CPUS = xla._are_cpus


@pytest.fixture(autouse=True)
def jax_as_before(monkeypatch):
    """No cache that the user chose, and one device; afterwards, all that a test changes is as it was."""
    monkeypatch.setattr(xla, "_are_cpus", lambda processes: processes > 1)
    before = {name: getattr(jax.config, name) for name in (*FLAGS, ENABLED)}
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    for name in FLAGS:
        monkeypatch.delenv(name.upper())
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_every_program_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    xla.keep_programs(Path("compiled"))
    assert [getattr(jax.config, name) for name in FLAGS] == [str(tmp_path / "compiled"), 0]
    assert not os.listdir(tmp_path)  # a run that is refused leaves nothing


def test_what_the_user_chose_holds(tmp_path, monkeypatch):
    jax.config.update("jax_compilation_cache_dir", "mine")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 3)
    xla.keep_programs(tmp_path)
    assert [getattr(jax.config, name) for name in FLAGS] == ["mine", 3]
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "3")
    xla.keep_programs(tmp_path)
    assert [getattr(jax.config, name) for name in FLAGS] == [str(tmp_path), 3]


@pytest.mark.parametrize("flags, is_kept", [("", False), (f"--{xla.ORDER}=X", True)])
def test_nothing_is_kept_of_several_cpu_devices(tmp_path, monkeypatch, flags, is_kept):
    """Not in a folder that the user names, either."""
    monkeypatch.setenv("XLA_FLAGS", flags)
    xla.keep_programs(tmp_path, processes=2)
    assert jax.config.jax_compilation_cache_dir is None
    assert getattr(jax.config, ENABLED) == is_kept
    assert ARE_CPUS(1)  # these tests have several


def fault(act, name, why="OSError: [Errno 28] No space left\non device"):
    """JAX's words, of 0.10 (jax/_src/compiler.py)."""
    return UserWarning(f"Error {act} persistent compilation cache entry for '{name}': {why}")


def test_a_disk_that_refuses_is_one_line(tmp_path, capsys):
    xla.keep_programs(tmp_path)
    for name in ("jit_train", "jit_init"):
        warnings.showwarning(fault("writing", name), UserWarning, "compiler.py", 1)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"note: {tmp_path}: writing jit_train: OSError: ")
    assert line.endswith("No space left on device; it is compiled, and the run goes on")


def test_a_damaged_entry_goes_and_is_named(tmp_path, capsys):
    xla.keep_programs(tmp_path)
    for name in ("jit_train-0a-cache", "jit_train_all-0b-cache", "jit_init-0c-cache"):
        (tmp_path / name).touch()
    warnings.showwarning(fault("reading", "jit_train"), UserWarning, "compiler.py", 1)
    assert sorted(os.listdir(tmp_path)) == ["jit_init-0c-cache", "jit_train_all-0b-cache"]
    assert "reading jit_train" in capsys.readouterr().err


def test_jax_still_warns_so(tmp_path, capsys):
    """A cache that cannot be: its folder is a file. The program is compiled, and computes."""
    from jax.experimental.compilation_cache import compilation_cache

    (tmp_path / "compiled").touch()
    compilation_cache.reset_cache()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            xla.keep_programs(tmp_path / "compiled")
            assert jax.jit(lambda x: x * 3.25)(2.0) == 6.5
    finally:
        compilation_cache.reset_cache()
    (line,) = capsys.readouterr().err.splitlines()
    assert "FileExistsError" in line


def test_other_warnings_are_shown_as_before(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(warnings, "showwarning", lambda *args: seen.append(args))
    xla.keep_programs(tmp_path)
    warnings.showwarning("deprecated", DeprecationWarning, "a.py", 7)
    assert seen == [("deprecated", DeprecationWarning, "a.py", 7)]
