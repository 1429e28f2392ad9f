"""What a user reads where a device runs out of memory."""

import re
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from linear import MESH, Config, Train, examples, make_steps

from redco_runtime.base.messages import UserError
from redco_runtime.loop.out_of_memory import DeviceMemory
from redco_runtime.run.record import Run

# What the compiler of a TPU v5e said of a program of 192 GiB.
TPU = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required "
    "for HLO temporaries (192.01G) exceeds available HBM (15.75G). HLO module: jit_f."
)


def explained(fault, tmp_path, **settings):
    """What is said of `fault`, a call, in a run of batches of 24 rows on two parts of a mesh."""
    settings = {"batch_size": 24, "micro_batches": 1, **settings}
    run = Run(tmp_path, Config(train=Train(**settings)), MESH, None)
    with (
        make_steps() as steps,
        pytest.raises(UserError) as caught,
        DeviceMemory(steps, run) as memory,
    ):
        rows = jnp.stack([row["x"] for row in examples(24)])
        memory.compile(steps.init(jax.random.key(0)), {"x": jax.device_put(rows, steps.batch)})
        fault()
    return str(caught.value)


def test_what_xla_cannot_allocate_is_explained(tmp_path):
    message = explained(lambda: jnp.ones((2**40,)).block_until_ready(), tmp_path)
    assert message.startswith("out of memory on cpu (4 in the mesh)\n")
    assert "redco fit --hardware NAME:DEVICES" in message.splitlines()[-1]
    flags = re.findall(r"^  (--\S+ \S+)", message, re.MULTILINE)
    # 12 rows on each device: halves of them where nothing says how many would fit.
    assert flags == ["--batch-size 12", "--micro-batches 2", "--mesh data=1,fsdp=2,model=2"]


def test_what_does_not_fit_a_tpu_is_counted_as_its_compiler_says(tmp_path, monkeypatch):
    def fault():
        raise jax.errors.JaxRuntimeError(TPU)

    message = explained(fault, tmp_path, micro_batches=2)
    sizes = {line[:40].strip(): float(line[40:].split()[-2]) for line in message.splitlines()[1:5]}
    assert sizes["a train step needs"] == sizes["what the rows of a batch take"] == 206.2
    assert re.search(r"--micro-batches 4 .* 103.1 GB", message)


def test_the_first_factor_that_fits_is_proposed(tmp_path, monkeypatch):
    def fault():
        raise jax.errors.JaxRuntimeError(TPU)

    has = {"bytes_limit": 80e9}
    monkeypatch.setattr(
        "redco_runtime.loop.out_of_memory.memory_of", lambda device: has["bytes_limit"]
    )
    message = explained(fault, tmp_path)
    assert "it has" in message.splitlines()[1] and "80.0 GB" in message.splitlines()[1]
    assert re.search(r"--batch-size 8 +68.7 GB", message)  # of 206.2, a third
    monkeypatch.setattr("redco_runtime.loop.out_of_memory.memory_of", lambda device: 10e9)
    assert re.search(
        r"--batch-size 2 +17.2 GB", explained(fault, tmp_path)
    )  # a row is what is left


def test_where_the_state_is_too_much_it_is_split_further(tmp_path):
    run = Run(tmp_path, Config(train=Train(batch_size=24)), MESH, None)
    with make_steps() as steps, pytest.raises(UserError) as caught, DeviceMemory(steps, run):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")
    assert "--mesh data=1,fsdp=2,model=2" in str(caught.value) and "--batch" not in str(
        caught.value
    )


@pytest.mark.parametrize(("remat", "proposed"), [("fit", True), ("nothing_saveable", False)])
def test_what_remat_saves_can_be_given_up(tmp_path, remat, proposed):
    """Where something is saved; a model without remat has no such flag."""
    config = replace(Config(train=Train(batch_size=24)), model=SimpleNamespace(remat=remat))
    run = Run(tmp_path, config, MESH, None)
    with make_steps() as steps, pytest.raises(UserError) as caught:
        with DeviceMemory(steps, run):
            raise jax.errors.JaxRuntimeError(TPU)
    assert ("--remat nothing_saveable" in str(caught.value)) is proposed


def test_other_errors_pass(tmp_path):
    run = Run(tmp_path, Config(), MESH, None)
    with make_steps() as steps, pytest.raises(ZeroDivisionError), DeviceMemory(steps, run):
        1 / 0  # noqa: B018
