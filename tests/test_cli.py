"""The commands `redco-new` and `redco`, as they are typed."""

import io
import os
import subprocess
import sys
import time
from contextlib import redirect_stderr
from pathlib import Path

import pytest
import samples

from redco_new import __version__, cli
from redco_new.cli import new, progress
from redco_new.cli.progress import status
from redco_new.request import Request


@pytest.fixture
def template(tmp_path, monkeypatch):
    samples.install_design(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return samples.write_template(tmp_path / "template")


def redco_new(*args):
    return cli.run(cli.new_app, "redco-new", list(args))


def redco(*args):
    return cli.run(cli.redco_app, "redco", list(args))


def script(name: str, *args: str) -> subprocess.CompletedProcess:
    """Run a console script in a process of its own, as its installed wrapper does."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; from redco_new import cli; cli.{name}()"
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)


def test_create(template, capsys):
    assert (
        redco_new("my-project", "--model", "gpt-j", "--shards", "4", "--template", "template") == 0
    )
    written = Request.from_toml(Path("my-project/redco.toml").read_text())
    assert written == Request.from_flags("my-project", "gpt-j", shards="4")
    out = capsys.readouterr()
    assert out.err == ""
    assert out.out == (
        "Created my-project. What to do next:\n\n"
        "  cd my-project\n"
        "  pip install -e .\n"
        "  python -m my_project.train --preset tiny --steps 200"
        " --virtual-devices 4 --workdir runs/a\n"
    )


def test_all_options(template):
    os.mkdir("out")
    args = ["--mesh", "data=2,fsdp=3,model=4", "--recipe", "lm", "--dtype", "float32"]
    args += ["--zero", "1", "--sequence-parallel"]
    assert redco_new("a", "--model", "b", *args, "--output", "out", "--template", "template") == 0
    asked = Request.from_toml(Path("out/a/redco.toml").read_text())
    mesh = {"data": 2, "fsdp": 3, "expert": 1, "model": 4}
    assert asked == Request(
        "a", "b", mesh, recipe="lm", dtype="float32", zero=1, sequence_parallel=True
    )


def test_full_path(template, tmp_path, capsys):
    folder = tmp_path / "a folder"
    folder.mkdir()
    assert redco_new(f"{folder}/a", "--model", "gpt-j", "--template", "template") == 0
    assert (folder / "a" / "a" / "model.py").is_file()
    assert f"  cd '{folder}/a'\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mesh", "trial", "two_hosts"),
    [
        ("model=4", "--virtual-devices 4", "--virtual-devices 4"),
        ("data=2,fsdp=2,model=4", "--virtual-devices 16", "--mesh data=2,fsdp=2,model=2 --virtual-devices 4"),
        ("data=64,fsdp=1,model=4", "--mesh data=2,model=4 --virtual-devices 8", "--mesh data=2,model=4 --virtual-devices 4"),
        ("data=-1", "--virtual-devices 1", "--virtual-devices 1"),
    ],
)  # fmt: skip
def test_a_first_run_is_one_that_a_laptop_can_make(mesh, trial, two_hosts, tmp_path, capsys):
    command = ["a", "--model", "gpt2", "--mesh", mesh, "--output", str(tmp_path)]
    assert redco_new(*command) == 0
    first = f"python -m a.train --preset tiny --steps 200 {trial} --workdir runs/a\n"
    readme = (tmp_path / "a/README.md").read_text()
    assert f"  {first}" in capsys.readouterr().out and first in readme
    assert f"--steps 20 {two_hosts} --workdir runs/two\n" in readme


def test_inspect_asks_for_the_plan(monkeypatch, capsys):
    samples.install_design(monkeypatch, plan=samples.PLAN)
    assert redco("inspect", "gpt-j", "--mesh", "data=1,fsdp=2,model=4", "--json") == 0
    assert '"mesh"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "command line: Missing argument 'MODEL'; see redco inspect --help"),
        (["ddpg"], "MODEL: ddpg is a recipe; see redco inspect --recipe ddpg"),
        (["image"], "--recipe: image trains a model that you name; give redco inspect vit --re"),
        (["--recipe", "classify"], "give redco inspect FILE.py:NAME --recipe classify"),
    ],
)
def test_inspect_takes_a_model_or_a_recipe_that_brings_one(args, message, capsys):
    assert redco("inspect", *args) == 2
    assert message in capsys.readouterr().err


def test_inspect_of_a_project_says_where_its_layout_is(tmp_path, capsys):
    (tmp_path / "redco.toml").touch()
    assert redco("inspect", str(tmp_path)) == 2
    assert (
        "is a project, whose layout is in its sharding.py; give a model" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Missing argument 'NAME'"),
        (["a"], "Missing option '--model'"),
        (["a", "--model"], "Option '--model' requires an argument"),
        (["a", "--modle", "x"], "No such option: --modle"),
        (["a", "b", "--model", "x"], "Got unexpected extra argument"),
    ],
)
def test_usage_errors_are_one_line(args, message, capsys):
    assert redco_new(*args) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"redco-new: command line: {message}")
    assert err.endswith("; see redco-new --help\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Missing command; see redco --help"),
        (["x"], "No such command 'x'; see redco --help"),
        (["eject"], "Missing argument 'PATH'; see redco eject --help"),
        (["update", "--shard", "x"], "--shards); see redco update --help"),
    ],
)
def test_usage_errors_name_the_command_that_was_called(args, message, capsys):
    assert redco(*args) == 2
    err = capsys.readouterr().err
    assert err.startswith("redco: command line: ") and err.endswith(f"{message}\n")


def test_bug_shows_its_traceback(template, monkeypatch):
    monkeypatch.setattr(new, "create_project", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        redco_new("a", "--model", "b")


def test_status_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with status() as progress:
        progress("reading [the] model")
    assert "reading [the] model ..." in capsys.readouterr().err


HELP = {
    "new_main": ["redco-new my-project --model gpt-j --shards 4", "What happens next", "--dtype"],
    "redco_main": ["inspect", "update", "resolve", "eject"],
}


@pytest.mark.parametrize("name", HELP)
def test_help(name):
    done = script(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for text in HELP[name]:
        assert text in done.stdout


def test_commands_ask_for_no_device(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "")
    monkeypatch.delenv("JAX_PLATFORMS")
    monkeypatch.setattr(cli, "run", lambda *args: os.environ["JAX_PLATFORMS"])
    for module, name in ((cli.signal, "signal"), (cli.gc, "set_threshold")):
        monkeypatch.setattr(module, name, lambda *args: None)
    with pytest.raises(SystemExit, match="cpu"):
        cli.redco_main()


def test_scripts_end_with_the_exit_code_and_one_line():
    done = script("new_main", "my-project", "--model", "gpt-j", "--shards", "0")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("redco-new: --shards: '0' is not a number of shards")
    assert done.stderr.count("\n") == 1


def test_usage_errors_need_no_heavy_imports():
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; from redco_new import cli\n"
        "cli.run(cli.new_app, 'redco-new', ['a', '--model', 'b', '--shards', '0'])\n"
        "cli.run(cli.new_app, 'redco-new', ['--help'])\n"
        "cli.run(cli.redco_app, 'redco', ['update', '/', '--shards', '8'])\n"
        "cli.run(cli.redco_app, 'redco', ['resolve', '/x', '--mine'])\n"
        "cli.run(cli.redco_app, 'redco', ['eject', '/x'])\n"
        "heavy = {'jax', 'numpy', 'flax', 'transformers', 'copier', 'black', 'yaml', 'rich'}\n"
        "sys.exit(str(heavy & sys.modules.keys()) if heavy & sys.modules.keys() else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("args", [["--help"], ["fit", "--list"]])
def test_what_nobody_reads_is_no_error(args):
    """As after `| head`: no traceback, no words about a pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    code = f"import sys; sys.path[:0] = {sys.path!r}; from redco_new import cli; cli.redco_main()"
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.stderr == ""


@pytest.mark.parametrize("program", [redco, redco_new])
def test_version(program, capsys):
    assert program("--version") == 0
    assert capsys.readouterr().out == f"redco-new {__version__}\n"


@pytest.mark.parametrize(
    ("main", "words", "completed"),
    [
        ("redco_main", "redco up", "update"),
        ("redco_main", "redco inspect --recipe ddp", "ddpg"),
        ("new_main", "redco-new a --model gpt-n", "gpt-neox"),
        ("new_main", "redco-new a --laun", "--launch"),
    ],
)
def test_a_shell_completes(main, words, completed, monkeypatch):
    program = words.split()[0].upper().replace("-", "_")
    monkeypatch.setenv(f"_{program}_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    monkeypatch.setattr(sys, "argv", [words.split()[0]])
    assert script(main).stdout.split() == [completed]


def test_a_long_wait_is_seen_in_a_log(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.05)
    with progress.status() as tell:
        tell("comparing it")
        time.sleep(0.2)
    assert "comparing it: 0 s so far\n" in capsys.readouterr().err


def test_a_long_wait_is_seen_while_what_a_class_prints_is_not(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.05)
    with progress.status() as tell, redirect_stderr(io.StringIO()):
        tell("printing it")
        time.sleep(0.2)
    assert "printing it: 0 s so far\n" in capsys.readouterr().err
