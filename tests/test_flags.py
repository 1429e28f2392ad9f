"""Each flag of each program, with values that are odd in any way: one line and exit code 2, or it is taken."""

import contextlib
import importlib
import io
import sys
from pathlib import Path

import pytest
import typer
from generated import ROOT

from redco_new import cli
from redco_new.cli import new

from redco_runtime.loop import command as programs

ODD = [
    "",
    " ",
    "-1",
    "0",
    "1e400",
    "nan",
    "9" * 30,
    "1.5",
    "[",
    "é",
    "\u2028",
    "a\x1b[31mb",
    "../..",
]
ODD += [
    "/dev/null",
    "/etc",
    "a=b",
    "a=1",
    "model=0",
    "x" * 300,
    "None",
    "~",
    ":",
    "a:b:c",
    "a.py:b",
]
ODD += ["nets.py:", "org/name/x", "s3://x", "\udcff", "%s", "{x}", "off", "true"]
ARGUMENTS = {
    "new": ["p", "--model", "gpt-j"],
    "inspect": ["gpt-j"],
    "fit": ["--model", "gpt2", "--hardware", "h100:8"],
    "resolve": ["x", "--mine"],
}


def all_flags():
    """Yield (app, its name, command, parameter) of each of redco-new and redco."""
    redco = typer.main.get_command(cli.redco_app)
    commands = [
        (cli.redco_app, "redco", [name], command) for name, command in redco.commands.items()
    ]
    commands += [(cli.new_app, "redco-new", [], typer.main.get_command(cli.new_app))]
    for app, program, words, command in commands:
        for parameter in command.params:
            if not getattr(parameter, "is_flag", False) and parameter.name != "help":
                yield pytest.param(
                    app, program, words, parameter, id=f"{[program, *words][-1]}-{parameter.name}"
                )


class Accepted(BaseException):
    """What a command would go on to do with flags that are sound."""


def accept(*_, **__):
    raise Accepted


def one_line(text: str) -> bool:
    return text.endswith("\n") and text.count("\n") == 1 and len(text) < 3000 and "\x1b" not in text


@pytest.mark.parametrize(("app", "program", "words", "parameter"), [*all_flags()])
def test_flags_of_the_generator(app, program, words, parameter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new, "create_project", accept)
    monkeypatch.setattr("redco_new.generate.read.plan_request", accept)
    monkeypatch.setattr("redco_new.cli.fit.compile_task", accept)
    for value in ODD:
        args = [*ARGUMENTS.get(words[0] if words else "new", [])]
        if parameter.param_type_name == "option":
            args = [*(x for x in args), f"{parameter.opts[0]}={value}"]
        else:
            args[:1] = [value]
        err = io.StringIO()
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            try:
                code = cli.run(app, program, [*words, *args])
            except Accepted:
                continue
        assert code in (0, 1, 2) and (code != 2 or one_line(err.getvalue())), (
            value,
            err.getvalue(),
        )


@pytest.fixture
def presets(monkeypatch):
    """The presets of a project of Llama."""
    monkeypatch.syspath_prepend(str(ROOT / "golden/llama-gqa/project"))
    yield importlib.import_module("my_project.config").PRESETS
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_project"]:
        del sys.modules[name]


def test_flags_of_a_project(presets, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    @programs.command
    def train():
        programs.training_run("Train.", presets, {"data": -1, "model": 2})

    flags = [flag for _, _, flag, _ in programs.settings(type(presets["full"]))]
    assert len(flags) > 40
    wrong = []
    values = ["", "-1", "0", "1e400", "nan", "9" * 30, "1.5", "\x1b[31m\u2028", "x" * 300, "s3://x"]
    for flag in ("workdir", "mesh", "virtual_devices", "preset", "init", *flags):
        for value in values:
            args = ["--workdir", "a", "--init", "none", f"--{flag.replace('_', '-')}={value}"]
            monkeypatch.setattr(sys, "argv", ["train", *args])
            code = 0
            try:
                train()
            except SystemExit as error:
                code = error.code
            except Exception as error:
                code = repr(error)
            text = capsys.readouterr().err
            if code not in (0, 2) or (code and not one_line(text)):
                wrong.append((flag, value[:20], code, text[:300]))
    assert not wrong and not [*Path(tmp_path).iterdir()]
