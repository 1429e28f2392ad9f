"""Four virtual CPU devices, and JAX at its strictest. Slow machine code, which is soon compiled.

A program is compiled once, whichever process of a run of the tests asks for it first, and not again by
the next run (programs.py), a template once a process (once.py). Cyclic garbage is searched for seldom, and once at the end,
where pytest would search five times and Python once more: a seventh of the CPU time.
"""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

from once import make_once
from programs import ORDER, WHOLE, keep_programs, kept_programs, link_programs

OWN = None  # the workers of xdist have that of the first process
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    OWN = Path(tempfile.mkdtemp(prefix="compiled-"))
    atexit.register(shutil.rmtree, OWN, ignore_errors=True)
    link_programs(OWN, kept_programs())
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(OWN)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    # Of GPUs alone, and their folder, which is another each time, would be of the key of a program.
    os.environ["JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"] = "none"

os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
# Projects' own options, by which XLA compiles for speed, leave to these what they name.
os.environ.setdefault("XLA_FLAGS", f"--xla_backend_optimization_level=0 {WHOLE} {ORDER}")
gc.set_threshold(100_000, 20, 100)

import jax  # noqa: E402

from redco_runtime.layout.mesh import use_virtual_devices  # noqa: E402

make_once()
use_virtual_devices(4)
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_collection_modifyitems(items):
    """Begin with the files that have slow tests: two processes are done together where the last files are short."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_unconfigure():
    if OWN:
        keep_programs(OWN, kept_programs())
    gc.collect()
    gc.freeze()
