"""Four virtual CPU devices, and JAX at its strictest. Slow machine code, which is soon compiled.

A program is compiled once a run of the tests, whichever of its processes asks for it first: they
share a cache, which goes with the run. Cyclic garbage is searched for seldom, and once at the end,
where pytest would search five times and Python once more: a seventh of the CPU time.
"""

import atexit
import gc
import os
import shutil
import tempfile

if (
    "JAX_COMPILATION_CACHE_DIR" not in os.environ
):  # the workers of xdist have it of the first process
    folder = tempfile.mkdtemp(prefix="compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    # Seconds: below, reading the file takes as long as compiling.
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"

os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
gc.set_threshold(100_000, 20, 100)

import jax  # noqa: E402

from redco_runtime.layout.mesh import use_virtual_devices  # noqa: E402

use_virtual_devices(4)
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_unconfigure():
    gc.collect()
    gc.freeze()
