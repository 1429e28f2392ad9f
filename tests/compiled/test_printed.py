"""A printed class beside the family of the same model, compiled for H100: as fast, in as much memory, with as much sent."""

import subprocess
import sys
from pathlib import Path

import pytest
from compiled.targets import use_compilers
from redco_fit import Job, compile_step, parse_target

MESH = {"fsdp": 2, "model": 2}
DROPS = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)  # a family has 0 unasked


@pytest.mark.slow  # the compiler of H100
def test_a_printed_class_compiles_to_what_its_family_does(tmp_path, monkeypatch):
    """Its kernel is fused of three, and multiplies rows of tokens: neither is so in the family."""
    use_compilers(monkeypatch)
    readings = []
    for name, flags, settings in (
        ("family", [], {"num_layers": 2}),
        ("printed", ["--via", "torch"], {"n_layer": 2, **DROPS}),
    ):
        new = Path(sys.executable).with_name("redco-new")
        command = [new, name, "--model", "gpt2", "--mesh", "fsdp=2,model=2", *flags]
        subprocess.run(command, cwd=tmp_path, check=True)
        job = Job(MESH, 16, 1024, {**settings, "vocab_size": 8192})
        readings.append(compile_step(tmp_path / name, parse_target("h100:4"), job))
    family, printed = readings
    sent = [sum(one.bytes for one in reading.collectives) for reading in readings]
    # Rows of its table are looked up, and sent, in float32, and rounded then: of two layers that is a fifth of all.
    assert sent[1] <= 1.25 * sent[0]
    assert printed.peak_bytes <= 1.05 * family.peak_bytes
    assert printed.step_seconds <= 1.1 * family.step_seconds
    for name in ("c_attn", "c_fc", "attention"):  # chosen by memory
        assert name in printed.remat
