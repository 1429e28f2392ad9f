"""Pages of memory for a step on a CPU: of 4 KiB, Linux makes them for its temporaries in each step anew."""

import os
import sys
from pathlib import Path

VARIABLE, TUNABLE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")  # such as: always [madvise] never


def use_huge_pages() -> None:
    """Start this program again, asking for pages of 2 MiB, if it is for a CPU and Linux gives them to who asks.

    glibc reads that as a process begins, so the first thing that a program does is to call this. Its
    process and its command line stay the same. Of 4 layers, 512 features, 8 x 256 tokens and 4 virtual
    devices, a step takes 9 % less CPU seconds. It returns where GLIBC_TUNABLES says something of these
    pages already, and where a debugger or a profiler has started the program.
    """
    said = os.environ.get(VARIABLE, "")
    if TUNABLE in said or not (_for_cpu() and _plain() and _for_who_asks()):
        return
    os.environ[VARIABLE] = f"{said}:{TUNABLE}=1".lstrip(":")
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _for_cpu() -> bool:
    """Return whether the command line or the environment asks for CPU devices."""
    virtual = any(word.startswith("--virtual-devices") for word in sys.argv[1:])
    return virtual or os.environ.get("JAX_PLATFORMS") == "cpu"


def _plain() -> bool:
    """Return whether Python itself runs this program: python -m NAME, or python FILE."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = ["-m", spec.name] if spec else [sys.argv[0]]
    start = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    return start == program and (spec is not None or Path(program[0]).is_file())


def _for_who_asks() -> bool:
    """Return whether Linux gives huge pages to memory that asks for them, and to no other."""
    try:
        return "[madvise]" in PAGES.read_text()
    except OSError:
        return False
