"""What compilers for devices that are not here made of a program, kept for the next run as programs of CPUs are (programs.py).

JAX would keep executables, and what is asked for is their text, what the compiler warns of and the memory that it
counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

# A line of a file, and, within a kernel's own program, a file; names of operations stay.
PLACE = re.compile(r'loc\("[^"\n]*":\d+[^)\n]*\)|/[\w./-]+\.py')


def remembered(lowered: Any, make: Callable[[], Any]) -> Any:
    """Return the plain data that `make` makes of a lowered program, or made when it was compiled before."""
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if not folder:
        return make()
    path = Path(folder) / f"compiled-{key_of(lowered)}-cache"
    if path.exists():
        return json.loads(zlib.decompress(path.read_bytes()))
    made = make()
    own = path.with_suffix(f".{os.getpid()}")
    own.write_bytes(zlib.compress(json.dumps(made).encode()))
    own.replace(path)
    return made


def key_of(lowered: Any) -> str:
    """Return what decides what becomes of a program: its text, its devices, its options, and the compiler."""
    program = lowered._lowering
    text = PLACE.sub("", lowered.as_text(debug_info=True))
    devices = [(d.device_kind, d.id, getattr(d, "coords", ())) for d in program._device_list]
    options = program._compiler_options_kvs, os.environ.get("XLA_FLAGS")
    compiler = jax.__version__, program.compile_args["backend"].platform_version
    return hashlib.sha256(repr((text, devices, options, compiler)).encode()).hexdigest()
