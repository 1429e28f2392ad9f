"""How programs are compiled that run once, or a few times, where a project is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import jax

# LLVM alone compiles a program in a quarter of the time that it takes with MLIR before it, and all in one piece in a sixth.
QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
jit_quickly = partial(jax.jit, compiler_options=QUICK)


@contextmanager
def compiled_once(quickly: bool = True) -> Iterator[None]:
    """Compile programs without what makes them fast: each runs once. quickly: False for one that runs longer than that takes"""
    former = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", quickly)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", former)
