"""The environment of a process that runs a project: its own modules, on the CPU, soon compiled."""

import os
from pathlib import Path

# Of a program that runs a few times: LLVM alone compiles it in half the time that it takes with MLIR before it.
QUICK = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1"
)


def project_environment(project: Path) -> dict[str, str]:
    """Return that of this process, with the project before what is installed, and on the CPU."""
    path = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": f"{project}{os.pathsep}{path}" if path else str(project),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",  # what it prints before it dies is seen
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": QUICK,
    }
