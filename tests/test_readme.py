"""The commands and the Python of README.md do what it says."""

import contextlib
import io
import re

import pytest
from generated import ROOT, make, run, shell_commands

from redco_new import cli

OWN = "## Your own class"  # has its test in own/test_readme.py
AFTER = "## After a change"


def redco(command, folder):
    """(exit code, stdout) of a command of redco's, in this process, which has imported it."""
    program, *args = command.split()
    assert program == "redco"
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out:
        return cli.run(cli.redco_app, program, args), out.getvalue()


@pytest.mark.slow
def test_the_commands_of_our_readme_work(tmp_path):
    text, own, _ = (ROOT / "README.md").read_text().partition(OWN)
    assert own
    commands = shell_commands(text)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = {c.split()[1] for c in commands if c.startswith("make ")}
    assert made == {"demo", "test"} <= targets
    rest = [c for c in commands if not c.startswith(("make ", "pip install", "cd "))]
    assert rest[0] == rest[1] and rest[1].startswith("redco-new ")
    code, out, err = run(rest[1], tmp_path)
    assert code == 0, err
    code, out, err = run(rest[2].replace("--steps 200", "--steps 2"), tmp_path / "my-project")
    assert code == 0, out + err
    inspects = rest[3:]
    fits = [c for c in inspects if c.startswith("redco fit ")]  # these take minutes and compilers
    inspects = [c for c in inspects if c not in fits]
    assert "redco fit --list" in fits and redco("redco fit --list", tmp_path)[0] == 0
    assert len(inspects) == 3 and all(c.startswith("redco inspect ") for c in inspects)
    for command in inspects:
        code, out = redco(command, tmp_path)
        assert code == 0 and "--html" in command or "layers/attn/q/kernel" in out
    assert "layers/attn/q/kernel" in (tmp_path / "plan.html").read_text()


@pytest.mark.slow
def test_the_commands_of_an_update_work(tmp_path):
    commands = shell_commands((ROOT / "README.md").read_text().partition(AFTER)[2])
    look, update, check = commands
    project = make(tmp_path, shards="4")
    assert redco(look, project) == (0, "my-project: 0 files would change.\n")
    code, out, err = run(update, project)
    assert code == 0 and "~ model 4 -> 8" in out, err
    assert redco(check, project) == (0, "")


def test_the_python_of_our_readme_works():
    import jax

    text = (ROOT / "README.md").read_text().partition(OWN)[0]
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {
        "forward": lambda params, batch: jax.nn.relu(batch @ params["a"]) @ params["b"],
        "params": {k: jax.ShapeDtypeStruct((8, 8), "float32") for k in "ab"},
        "batch": jax.ShapeDtypeStruct((2, 8), "float32"),
    }
    exec(block, names)
    plan, arrays = names["plan"], {k: jax.numpy.ones((8, 8)) for k in "ab"}
    assert list(plan.specs) == ["a", "b"]
    batch = jax.numpy.ones((2, 8))
    assert (plan.forward(plan.store(arrays), batch) == names["forward"](arrays, batch)).all()
