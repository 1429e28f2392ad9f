"""The smoke test of a merged project: what runs passes, and what does not is named where it is."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from generated import ROOT

from redco_new.project.create import create_project
from redco_new.errors import Refusal
from redco_new.request import Request
from redco_new.update import trial_run
from redco_new.project.sandbox import mirror_project

CONFIG = '[model]\nfeatures = [8, 16]\n[inputs]\nimage = {shape = ["B", 8, 8, 1]}\n'
MESH = {"data": 2, "fsdp": 1, "model": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project of a class that lies beside it, ../cnn.py."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(ROOT / "tests/own/nets_nnx.py", folder / "cnn.py")
    (folder / "cnn.toml").write_text(CONFIG)
    request = Request.from_flags(
        "net",
        f"{folder}/cnn.py:SmallCNN",
        mesh="data=2,model=2",
        recipe="classify",
        config=f"{folder}/cnn.toml",
        folder=folder / "net",
    )
    return create_project(request, folder)


@pytest.fixture
def own(made, tmp_path, monkeypatch):
    """A copy of that project, in a folder with a copy of the class; and a TMPDIR of its own."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", None)
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(made.parent, tmp_path / "work")
    yield tmp_path / "work/net"
    assert list((tmp_path / "scratch").iterdir()) == []


def edited(folder, path, old, new):
    """{path: content} of a file of the project, with a text replaced."""
    text = (folder / path).read_text()
    assert text.count(old) == 1
    return {path: text.replace(old, new).encode()}


def try_edit(folder, path, old, new):
    """The notes of a trial of the project, edited so."""
    with mirror_project(folder, edited(folder, path, old, new), levels_up=1) as mirror:
        return trial_run.try_one_step(mirror, "net", MESH)


def refusal(folder, path, old, new):
    """What the trial of the project, edited so, is refused with; and the number of that line."""
    with pytest.raises(Refusal) as refused:
        try_edit(folder, path, old, new)
    (content,) = edited(folder, path, old, new).values()
    lines = content.decode().splitlines()
    number = next((i for i, line in enumerate(lines, 1) if "# here" in line), 0)
    assert refused.value.what.startswith("merged, it does not run: ")
    # No temporary folder is named; the environment may be, which lies in a clone of any name.
    text = str(refused.value).replace(sys.prefix, "")
    assert "\n" not in text and "redco-" not in text
    return refused.value, number


NOISE = """
import mirror  # a module of this name lies beside the program that tries it

print(mirror.NOISE * 100_000)
open("made", "w").close()
"""
ROWS = """
stack = collate


def collate(examples):
    assert len(examples) == 4, "a row for each of 2 devices, of each of 2 parts"
    return stack(examples)
"""


def test_a_project_that_runs(own, tmp_path, monkeypatch):
    """It is tried with its own files, not those that are installed, and what it prints is not seen."""
    (tmp_path / "installed/net").mkdir(parents=True)
    (tmp_path / "installed/net/__init__.py").write_text("raise RuntimeError('installed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    noise = f"CLASSES = 10\n{NOISE}"
    files = {
        **edited(own, "net/pipeline.py", "CLASSES = 10", noise),
        **edited(own, "net/config.py", "  steps=200,", "  micro_batches=2, steps=200,"),
        "mirror.py": b'NOISE = "noise"',
    }
    files["net/pipeline.py"] += ROWS.encode()
    steps = []
    with mirror_project(own, files, levels_up=1) as mirror:
        assert trial_run.try_one_step(mirror, "net", MESH, steps.append) == []
        assert (mirror / "made").exists()
    assert steps == ["trying one step on 4 virtual devices"]
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_built_in_family():
    with mirror_project(ROOT / "golden/gpt-j-4/project", {}) as mirror:
        assert (
            trial_run.try_one_step(mirror, "my_project", {"data": 2, "fsdp": 1, "model": 4}) == []
        )


def test_the_class_beside_it(own):
    """It is outside the project: its path is told whole, and is the real one."""
    path = own.parent / "cnn.py"
    text = path.read_text()
    path.write_text(text.replace("x = nnx.relu(self.conv1(image))", "x = self.conv3(image)"))
    with mirror_project(own, {}, levels_up=1) as mirror, pytest.raises(Refusal) as refused:
        trial_run.try_one_step(mirror, "net", MESH)
    number = path.read_text().splitlines().index("        x = self.conv3(image)") + 1
    assert refused.value.where == f"{path}:{number}"
    assert "AttributeError: 'SmallCNN' object has no attribute 'conv3'" in refused.value.what


FAULTS = {
    "model": (
        "net/model.py",
        "class SmallCNNModel(nnx.Module):",
        "class SmallCNNModel(nnx.Modul):  # here",
        "has no attribute 'Modul'",
    ),
    "syntax": ("net/train.py", "import jax\n", "import jax jax  # here\n", "SyntaxError: "),
    "exit": (
        "net/pipeline.py",
        "CLASSES = 10",
        "print('bye')\nraise SystemExit(3)  # here",
        "SystemExit: 3",
    ),
    "loss": (
        "net/pipeline.py",
        'logits_BC = model(image=batch["image"])\n    losses_B',
        'logits_BC = model(image=batch["picture"])  # here\n    losses_B',
        "KeyError: 'picture'",
    ),
    "collate": (
        "net/pipeline.py",
        "for name in names}",
        "for name in examples.names}  # here",
        "AttributeError: 'list' object has no attribute 'names'",
    ),
    "compiled": (  # the frames of what numpy was compiled from are no files of the project
        "net/pipeline.py",
        "CLASSES = 10",
        "CLASSES = np.random.default_rng(0).choice([], 10)  # here",
        "ValueError: ",
    ),
    "examples": (
        "net/pipeline.py",
        "config.data.num_examples",
        "config.data.count  # here\n    ",
        "AttributeError: 'Data' object has no attribute 'count'",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_by_its_line(name, own):
    path, old, new, what = FAULTS[name]
    refused, number = refusal(own, path, old, new)
    assert refused.where == f"{path}:{number}"
    assert what in refused.what
    assert refused.todo == trial_run.LOOK


def test_a_module_that_is_not_installed(own):
    refused, number = refusal(own, "net/train.py", "import jax\n", "import nowhere.at  # here\n")
    assert refused.where == f"net/train.py:{number}"
    assert refused.what.endswith("ModuleNotFoundError: No module named 'nowhere'")
    assert "pip install -e ." in refused.todo and "and nowhere if" in refused.todo
    assert sys.prefix in refused.todo


def test_a_parameter_without_a_spec(own):
    refused, _ = refusal(own, "net/sharding.py", '"net/conv1/bias"', '"net/conv9/bias"')
    assert refused.where.startswith("net/steps.py:")
    assert "sharding.py does not fit the model: net/conv1/bias: a parameter" in refused.what
    assert "net/conv9/bias: a spec without a parameter" in refused.what


def test_a_loss_that_is_no_number(own):
    refused, _ = refusal(own, "net/pipeline.py", "return losses_B,", "return losses_B * jnp.nan,")
    assert refused.where == "net/pipeline.py::loss"
    assert refused.what.endswith("the loss of the first step is nan")


def test_a_process_that_dies(own):
    new = "import os, sys\nprint(__file__, 'says bye')\nos._exit(3)"
    refused, _ = refusal(own, "net/pipeline.py", "CLASSES = 10", new)
    assert refused.where == "net"
    assert refused.what.endswith("Python ended with 3 and said: net/pipeline.py says bye")


RETRY = """
    while True:
        try:
            __import__("time").sleep(0.1)
        except BaseException:
            pass
"""
NOTES = {
    "absent": (
        'open(__file__ + ".data")',
        "FileNotFoundError: [Errno 2] No such file or directory: 'net/pipeline.py.data'",
    ),
    "told": (
        'from net.runtime.base.messages import UserError\n    raise UserError("--text-files: none here")',
        "--text-files: none here",
    ),
    "exit": ("raise SystemExit(1)", "SystemExit: 1"),
    "empty": ("return [], []", "it gives none to train on"),
    "endless": (RETRY, "it takes more than 1 s"),
}


@pytest.mark.parametrize("name", NOTES)
def test_data_that_is_not_here_is_a_note(name, own, monkeypatch):
    body, note = NOTES[name]
    monkeypatch.setattr(trial_run, "EXAMPLES_SECONDS", 1 if name == "endless" else 60)
    old = "    rng, rows = np.random.default_rng(0), []\n"
    notes = try_edit(own, "net/pipeline.py", old, f"    {body.strip()}\n{old}")
    assert notes == [f"one step was not tried: examples() in pipeline.py: {note}"]


def test_a_preset_that_the_user_renamed(own):
    notes = try_edit(own, "net/config.py", '"tiny": TINY', '"small": TINY')
    assert notes == ["one step was not tried: PRESETS in config.py has no tiny"]


HANG = """CLASSES = 10
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open({!r}, "w") as out:
    print(__import__("os").getpid(), child.pid, file=out, flush=True)
time.sleep(600)
"""


def alive(pid):
    """Whether a process runs; one that has ended and is only not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_trial_that_does_not_end(own, tmp_path, monkeypatch):
    monkeypatch.setattr(trial_run, "TRIAL_SECONDS", 8)
    new = HANG.format(str(tmp_path / "pids"))
    refused, _ = refusal(own, "net/pipeline.py", "CLASSES = 10", new)
    assert refused.what.endswith("one step takes more than 8 s")
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2 and not any(map(alive, pids))


TRY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from pathlib import Path
from redco_new.project.sandbox import mirror_project
from redco_new.update.trial_run import try_one_step
with mirror_project(Path({!r}), {{}}, levels_up=1) as mirror:
    try_one_step(mirror, "net", {!r})
"""


def test_ctrl_c(own, tmp_path):
    """It ends all that the trial has started, and leaves no folder: `own` looks."""
    pids = tmp_path / "pids"
    hang = HANG.format(str(pids))
    (content,) = edited(own, "net/pipeline.py", "CLASSES = 10", hang).values()
    (own / "net/pipeline.py").write_bytes(content)
    parent = subprocess.Popen(
        [sys.executable, "-c", TRY.format(str(own), MESH)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "generator")},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (pids.exists() and pids.read_text().endswith("\n")):
        assert parent.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=10)
    assert parent.returncode == -signal.SIGINT and "KeyboardInterrupt" in said
    assert not any(map(alive, pids.read_text().split()))
