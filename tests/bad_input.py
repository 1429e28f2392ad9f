"""Bad input, run where it finds one of each thing that a project must not touch."""

import contextlib
import io
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from unittest import mock

from samples import REQUEST, tree

from redco_new import __version__, cli
from redco_new.project.records import BASE, new_records
from redco_new.render import assets
from redco_new.transaction import MANIFEST


def complaint(command: str) -> str:
    """What a command with bad input says on stderr, run where it finds something of each kind.

    Its exit code must be 2, its stdout empty, and all files as they were. In `command` and in what
    it says, {folder} is the folder that it runs in.
    """
    with tempfile.TemporaryDirectory(prefix="golden-") as name, contextlib.chdir(name):
        folder = os.path.realpath(name)
        lay_traps(Path(folder))
        before = tree(Path(folder))
        program, *args = shlex.split(command.replace("{folder}", folder))
        app = {"redco-new": cli.new_app, "redco": cli.redco_app}[program]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            with mock.patch("os.access", but_read_only):
                code = cli.run(app, program, args)
        assert (code, out.getvalue()) == (2, ""), f"{command}: exit code {code}, {out.getvalue()}"
        assert tree(Path(folder)) == before, f"{command}: files were written"
        return err.getvalue().replace(folder, "{folder}")


def but_read_only(path: str, mode: int, access=os.access) -> bool:
    """os.access, with one folder read-only: the mode of a folder is no bar to root."""
    return Path(path).name != "read-only" and access(path, mode)


# folder -> (file, what of it is something else, what it is instead).
PROJECTS = {
    "good": ("redco.toml", "zero", "zero"),
    "key": ("redco.toml", "zero", "zeor"),
    "not-toml": ("redco.toml", "zero = 0", "zero = "),
    "renamed": ("redco.toml", "my-project", "another"),
    "ejected": (MANIFEST, '"ejected": []', '"ejected": ["launch/hosts.sh"]'),
    "of-a-fork": (MANIFEST, '"redco"', '"fork"'),
    "newer": (MANIFEST, __version__, "99.0"),
    "merged": (MANIFEST, "{\n", "<<<<<<< HEAD\n{\n=======\n{\n>>>>>>> other\n"),
}


def lay_project(folder: Path) -> None:
    """A project of two files, with one thing wrong."""
    files = {"redco.toml": REQUEST.to_toml(), "my_project/model.py": "x = 1\n"}
    records = new_records(REQUEST, files)
    packed = records.pop(BASE)
    texts = {**files, **{path: x.decode() for path, x in records.items()}, ".redco/lock": ""}
    path, old, new = PROJECTS[folder.name]
    texts[path] = texts[path].replace(old, new, 1)
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / BASE).write_bytes(packed)


def lay_traps(folder: Path) -> None:
    """One of each thing that a project must not be created over, in, or from."""
    for name in ("taken", "made/.redco", "read-only"):
        (folder / name).mkdir(parents=True)
    (folder / "file.txt").write_text("a file\n")
    (folder / "taken" / "notes.txt").write_text("not redco's\n")
    (folder / "made" / ".redco" / "manifest.json").write_text("{}\n")
    (folder / "made" / ".redco" / "lock").write_text("")
    for name in PROJECTS:
        lay_project(folder / name)
    shutil.copytree(Path(__file__).parent / "own" / "bad", folder, dirs_exist_ok=True)
    shutil.copytree(assets.templates(), folder / "fork")
    with open(folder / "fork" / "copier.yml", "a") as config:
        config.write("\n_tasks: [touch ran]\n")
