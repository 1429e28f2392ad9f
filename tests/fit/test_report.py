"""What `redco fit` says of a reading: text, JSON, a page."""

import errno
import io
import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from fit.readings import FITS, REFUSED
from redco_new import cli
from redco_new.errors import RedcoError
from redco_fit import child, compiling
from redco_fit.page import render_reading
from redco_fit.reading import SCRATCH, Reading
from redco_fit.report import report_reading
from redco_fit.target import parse_target
from redco_fit.words import lines_of, memory_lines, verdict
from redco_new.inspect.page import check_page_target


def test_a_reading_survives_json():
    assert Reading.from_dict(json.loads(json.dumps(FITS.to_dict()))) == FITS


def test_it_fits_where_it_compiled_and_its_peak_is_within_the_limit():
    assert FITS.fits and verdict(FITS).startswith("fits: 1.4 GB of 63.7 GB on each device, 62.3 GB")
    over = replace(FITS, peak_bytes=FITS.limit_bytes + 10**9)
    assert not over.fits and verdict(over).endswith("1.0 GB too much")
    assert not REFUSED.fits and not replace(REFUSED, peak_bytes=0).fits


def test_the_text_has_the_step_its_memory_its_time_and_the_compilers_words():
    text = "\n".join(lines_of("net", FITS))
    assert "net on 4 x NVIDIA H100 80GB HBM3 (h100:4), mesh fsdp 4, batch 8 of 1024 tokens" in text
    assert "where temporaries exceed 60.2 GB: 59.2 GB away" in text
    assert "a step, estimated: 6.6 ms" in text and "collectives over fsdp 1.4 ms (NVLink)" in text
    assert "note: a note" in text
    refused = "\n".join(lines_of("net", REFUSED))
    assert "the compiler: E1000: CompileTimeHbmOom" in refused and "estimated" not in refused


def test_the_bar_has_room_for_what_is_too_much():
    bar, *_ = memory_lines(replace(FITS, limit_bytes=10**9))
    assert bar.index("]") > 40 and set(bar) <= set("  [POA]")
    first, *_ = memory_lines(FITS)
    assert len(first.strip()) == 62


def test_json_has_what_programs_ask_for(capsys):
    report_reading("net", FITS, as_json=True)
    document = json.loads(capsys.readouterr().out)
    wanted = "fits peak_bytes limit_bytes argument_bytes temporary_bytes flops step_seconds seconds"
    wanted += " compile_seconds devices mesh remat collectives"
    assert {*wanted.split()} <= document.keys()
    assert document["collectives"][0].keys() == {"kind", "count", "bytes", "axis", "source"}


@pytest.mark.parametrize("reading", [FITS, REFUSED], ids=["fits", "refused"])
def test_a_page_draws_memory_and_time_and_is_one_that_a_page_replaces(tmp_path, capsys, reading):
    page = render_reading("<net>", reading)
    assert "&lt;net&gt;" in page and "<net>" not in page and "Memory of a device" in page
    assert ("Time of a step" in page) == reading.fits
    target = tmp_path / "fit.html"
    report_reading("net", reading, html=target)
    check_page_target(target)
    (tmp_path / "other.html").write_text("mine")
    with pytest.raises(RedcoError, match="not a page"):
        check_page_target(tmp_path / "other.html")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "Missing option '--hardware'"),
        (("--hardware", "h1"), "no hardware is called 'h1'"),
        (("here", "--model", "gpt2", "--hardware", "h100"), "is given beside the project here"),
        (("--hardware", "h100", "--dtype", "float32"), "is for --model"),
        (("nowhere", "--hardware", "h100"), "no such folder"),
        (("--hardware", "h100", "--mesh", "fsdp"), "'fsdp' is not AXIS=SIZE"),
        (("--hardware", "h100", "--batch", "0"), "Invalid value for '--batch'"),
        (("--hardware", "h100", "--apply"), "is what becomes of a --search"),
        (("--hardware", "h100", "--search", "--apply", "--json"), "give one of them"),
    ],
)
def test_bad_input_is_one_line(args, says, capsys):
    assert cli.run(cli.redco_app, "redco", ["fit", *args]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_a_folder_without_rights_and_one_that_is_gone_are_one_line(tmp_path, monkeypatch, capsys):
    args = ["fit", "--hardware", "h100", "--search"]
    monkeypatch.chdir(tmp_path)
    denied = PermissionError(errno.EACCES, "Permission denied", "there/.redco")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_file", mock.Mock(side_effect=denied))
        assert cli.run(cli.redco_app, "redco", args) == 2
    tmp_path.rmdir()
    assert cli.run(cli.redco_app, "redco", args) == 2
    rights, gone = capsys.readouterr().err.splitlines()
    assert rights.startswith("redco: there/.redco: cannot be read: Permission denied; give the")
    assert "cannot be read: No such file or directory" in gone or "no such folder" in gone


def test_a_compiler_without_room_for_its_files_says_where():
    text = "RESOURCE_EXHAUSTED: /tmp/redco-1/tempfile-vm-1; No space left on device"
    error = child.failure(RuntimeError(text), {"folder": "p", "target": "h100:1"}, "no step")
    assert error["where"] == SCRATCH and "no room in /" in error["what"]


def test_the_list_has_every_machine_and_its_memory(capsys):
    assert cli.run(cli.redco_app, "redco", ["fit", "--list"]) == 0
    out = capsys.readouterr().out
    assert "b200" in out and "NVIDIA A100-SXM4-40GB" in out and "42.3 GB" in out


def test_a_compiler_that_is_missing_says_what_to_install(tmp_path, monkeypatch):
    from redco_fit import compilers

    monkeypatch.setenv(compilers.FOLDER, str(tmp_path))
    for platform, package in (("tpu", "libtpu"), ("gpu", "jax-cuda12-plugin==")):
        with pytest.raises(RedcoError, match=f"--target ~/.cache/redco/compilers {package}"):
            compilers.environment(platform, ())
    (tmp_path / "libtpu").mkdir()
    (tmp_path / "libtpu/libtpu.so").touch()
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_some=1")  # which libtpu may not know
    environment = compilers.environment("tpu", ())
    assert environment["JAX_PLATFORMS"] == "cpu" and str(tmp_path) in environment["PYTHONPATH"]
    assert not environment["XLA_FLAGS"]


def test_a_flag_that_the_compiler_does_not_know_is_named(tmp_path):
    output = io.BytesIO(b"F1129 parse_flags.cc:234] Unknown flag in XLA_FLAGS: --nonsense=3\n")
    error = compiling._died(parse_target("h100:1"), 1, output)
    assert error.where == "XLA_FLAGS" and "has no flag --nonsense=3" in error.what


def test_a_plugin_of_another_version_of_jax_is_named(tmp_path, monkeypatch):
    from redco_fit import compilers

    monkeypatch.setenv(compilers.FOLDER, str(tmp_path))
    for path in ("jax_plugins/xla_cuda12/x", "nvidia/cuda_nvcc/bin/ptxas"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    info = tmp_path / "jax_cuda12_plugin-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jax-cuda12-plugin\nVersion: 0.1\n")
    with pytest.raises(RedcoError, match="jax-cuda12-plugin 0.1 does not go with JAX"):
        compilers.environment("gpu", ())
