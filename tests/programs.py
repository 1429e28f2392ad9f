"""Programs that former runs of the tests compiled: half of the CPU's time of a first run.

A run has a folder of its own, with links to what is kept; what it compiled besides is kept once it has
ended, each program whole. So what a killed process has half written stays with its run.
"""

import hashlib
import os
import re
import time
import zlib
from importlib.metadata import version
from pathlib import Path

# A program that is read back has lost the order of its collectives: those that begin as early as
# they can, which is XLA's own way, begin in another order on each device, and wait for ever.
ORDER = "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
# LLVM alone is faster than MLIR before it: two fifths of the CPU's time of a first run of programs.
# On programs in one piece it takes two thirds of the time that it takes on 32 pieces.
WHOLE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
SOON = "--xla_backend_optimization_level=1"  # of programs that run a while: machine code that is not of the slowest
# Options of one program that runs for seconds, of a test: a fifth of the time, where it is kept.
FAST = {"xla_backend_optimization_level": 2, "xla_llvm_disable_expensive_passes": False}
AGE = 30 * 86400  # seconds: programs change with the code, and nobody asks for the former ones


def kept_programs() -> Path:
    """Return the folder of this XLA and this CPU: programs of another may not run."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    about = Path("/proc/cpuinfo")
    features = (
        re.search(r"^(?:flags|Features).*", about.read_text(), re.M) if about.exists() else None
    )
    cpu = hashlib.sha256(features[0].encode() if features else b"").hexdigest()[:8]
    return caches / "redco-new-tests" / f"{version('jaxlib')}-{cpu}"


def link_programs(folder: Path, kept: Path) -> None:
    """Give a run the programs that are kept."""
    for path in kept.glob("*-cache"):
        if path.stat().st_mtime < time.time() - AGE:
            path.unlink(missing_ok=True)
        else:
            (folder / path.name).symlink_to(path)


def keep_programs(folder: Path, kept: Path) -> None:
    """Keep what a run has compiled."""
    kept.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*-cache"):
        if path.is_symlink():
            continue
        content = path.read_bytes()
        try:
            zlib.decompress(content)
        except zlib.error:
            continue  # half written, or packed otherwise
        new = kept / f"{path.name}.{os.getpid()}"
        new.write_bytes(content)
        new.replace(kept / path.name)
