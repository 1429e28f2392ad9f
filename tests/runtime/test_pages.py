"""Programs for CPUs begin anew with huge pages, once, and only where that is theirs to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from redco_runtime.pages import TUNABLE, VARIABLE

RUNTIME = Path(__file__).parents[2] / "runtime"
ASKED = "always [madvise] never"
# Says each start of its: its process, its words and the variable that glibc reads.
PROGRAM = f"""
import os, sys
from pathlib import Path
from redco_runtime import pages

print(os.getpid(), sys.argv[1:], os.environ.get("{VARIABLE}"), flush=True)
pages.PAGES = Path(__file__).with_name("enabled")
pages.use_huge_pages()
"""


@pytest.fixture
def starts(tmp_path, monkeypatch):
    """Return a function that runs a program by Python's own words, and returns a line for each start."""
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)

    def run(*words, pages=ASKED, **variables):
        (tmp_path / "enabled").write_text(pages)
        env = os.environ | {"PYTHONPATH": str(RUNTIME)} | variables
        command = [sys.executable, *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if "[" in line]

    return run


@pytest.mark.parametrize("program", [("program.py",), ("-m", "program")], ids=["file", "module"])
def test_a_program_for_a_cpu_starts_again_once_with_its_words_in_its_process(starts, program):
    words = ("--virtual-devices", "4", "--steps=3")
    before, after = starts(*program, *words)
    assert before.endswith("None")
    assert after == before.replace("None", f"{TUNABLE}=1")
    assert str([*words]) in after


def test_what_else_the_environment_tunes_stays(starts):
    _, after = starts("program.py", JAX_PLATFORMS="cpu", **{VARIABLE: "glibc.malloc.perturb=0"})
    assert after.endswith(f"glibc.malloc.perturb=0:{TUNABLE}=1")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("program.py",), {}),
        (("program.py",), {"JAX_PLATFORMS": "cuda"}),
        (("program.py",), {"JAX_PLATFORMS": "cpu", "pages": "[always] madvise never"}),
        (("program.py",), {"JAX_PLATFORMS": "cpu", "pages": "always madvise [never]"}),
        (("program.py",), {"JAX_PLATFORMS": "cpu", VARIABLE: f"{TUNABLE}=0"}),
        (("-m", "cProfile", "program.py"), {"JAX_PLATFORMS": "cpu"}),
        (("-m", "cProfile", "-m", "program"), {"JAX_PLATFORMS": "cpu"}),
        (("-c", "import runpy; runpy.run_path('program.py')"), {"JAX_PLATFORMS": "cpu"}),
    ],
    ids=["no-cpu", "gpu", "always", "never", "refused", "profiler", "profiler-m", "text"],
)
def test_others_start_once(starts, words, options):
    assert len(starts(*words, **options)) == 1
