"""Readings as the compilers gave them, shortened."""

from dataclasses import replace

from redco_fit.reading import Reading, Sent

FITS = Reading(
    target="h100:4",
    compiled_for="h100:4",
    devices=4,
    mesh={"fsdp": 4},
    batch=8,
    length=1024,
    remat="remat: 0.3 GB saved: attention, u_BSF",
    limit_bytes=63_707_234_304,
    compile_seconds=9.0,
    peak_bytes=1_393_314_277,
    argument_bytes=374_421_776,
    output_bytes=374_412_093,
    temporary_bytes=1_012_600_488,
    workspace_bytes=6_291_456,
    remat_bytes=60_166_171_372,
    memory={"parameters": 124_803_840, "optimizer": 249_607_688, "activations": 1_018_902_749},
    flops=1.634e12,
    model_flops=1.75e12,
    step_seconds=0.0066,
    seconds={"products": 0.0031, "memory": 0.0026, "fsdp": 0.0014, "exposed": 0.0009},
    collectives=(Sent("all-gather", 12, 169_869_312, "fsdp", "jit(train)/<dot>"),),
    notes=("a note",),
)
REFUSED = replace(
    FITS,
    target="v5e:2x2",
    compiled_for="v5e:2x2",
    refused="E1000: CompileTimeHbmOom: temporaries (881.71G) exceeds available HBM (15.75G)",
    peak_bytes=900 * 2**30,
    limit_bytes=int(15.75 * 2**30),
    remat_bytes=None,
    step_seconds=0.0,
    seconds={},
    collectives=(),
)
