"""Options of XLA: those of the platform, which the user has not set, and which the compiler has."""

import jax
import pytest

from redco_runtime.base.messages import UserError
from redco_runtime.step.xla import compiler_options

EMBED = "xla_embed_ir_in_executable"  # one that the compiler for CPUs has


@pytest.fixture(autouse=True)
def in_place(mesh, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    with jax.set_mesh(mesh):
        yield


def test_those_of_the_platform_are_taken():
    table = {"cpu": {EMBED: True}, "gpu": {"xla_gpu_enable_triton_gemm": False}}
    assert compiler_options(table) == {EMBED: True}
    assert compiler_options({"gpu": {EMBED: True}}) == {}
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        assert compiler_options(table) == {EMBED: True}


@pytest.mark.parametrize("variable", ["XLA_FLAGS", "LIBTPU_INIT_ARGS"])
def test_what_the_user_sets_wins(variable, monkeypatch):
    monkeypatch.setenv(variable, f"--other=1 --{EMBED}=false")
    assert compiler_options({"cpu": {EMBED: True}}) == {}


def test_one_that_the_compiler_does_not_have_is_left_out_in_a_line(capsys):
    table = {"cpu": {"xla_of_tomorrow": True, EMBED: True}}
    assert compiler_options(table) == {EMBED: True}
    assert capsys.readouterr().err == "note: xla_flags.py: this XLA has no xla_of_tomorrow\n"


def test_a_value_that_the_compiler_refuses_is_an_error():
    with pytest.raises(UserError, match=f"xla_flags.py: {EMBED} = 'perhaps': .* not a valid bool"):
        compiler_options({"cpu": {EMBED: "perhaps"}})
