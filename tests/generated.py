"""Generated projects in folders of tests, and commands run in them."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from forked import run_forked
from programs import ORDER

from redco_new import cli
from redco_new.generate.files import print_files, project_context
from redco_new.generate.plan import plan_program
from redco_new.generate.read import read_model
from redco_new.own.find import find_reference
from redco_new.own.model import find_own as find_made, read_usage
from redco_new.project.create import create_project
from redco_new.render.template import open_template
from redco_new.request import Request

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
# Machine code as users have it, where bounds are of that.
EXACT = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": ORDER}
WAITS = re.compile(r"^.*: \d+ s so far\n", re.MULTILINE)  # of what takes long where much else runs


def run(command, folder, **variables):
    """(exit code, stdout, stderr but for WAITS) of a shell command, with this Python's programs first."""
    env = users_environ() | {"PATH": f"{BIN}:{os.environ['PATH']}"} | variables
    if forked := run_forked(command, folder, env, 500):
        code, out, err = forked
    else:
        done = subprocess.run(
            command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=500
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    return code, out, WAITS.sub("", err)


def redco(folder, *args, program="redco"):
    """(exit code, stdout, stderr but for WAITS) of a command, typed in a folder, in this process."""
    out, err = io.StringIO(), io.StringIO()
    app = {"redco": cli.redco_app, "redco-new": cli.new_app}[program]
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(app, program, [*args])
    return code, out.getvalue(), WAITS.sub("", err.getvalue())


def users_environ():
    """The environment of a user, and what spares the time of compilers: slow machine code, compiled once a run of the tests.

    pytest has no plugin, which a project needs none of. Threads are as many as its own devices need, not those of the tests.
    """
    own = ("JAX_", "XLA_", "PJRT_", "PYTHON")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    cache = {
        k: v
        for k, v in os.environ.items()
        if re.match("JAX_(COMPILATION|PERSISTENT)_CACHE|XLA_FLAGS", k)
    }
    spared = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return kept | cache | spared


def shell_commands(text):
    """The commands in the bash blocks of a README, joined where a line goes on."""
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return [c for block in blocks for c in block.replace("\\\n", " ").splitlines()]


def metrics(folder):
    """The lines of the metrics.jsonl of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def texts(request):
    """({path: text} of the project that a request asks for, its Design, its plan): nothing is written."""
    with open_template() as template:
        model = read_model(request, template)
        program = model.program()
        plan = plan_program(request, program)
        context = project_context(model, program, plan)
        return print_files(template, model, context), model, plan


def find_own(model, recipe, own, project, folder, shards=1):
    """The class of Flax that `model` names, as `own` says and `recipe` trains it."""
    reference = find_reference("--model", model, folder)
    usage = read_usage(reference, own, folder, "__call__")
    return find_made(reference, usage, recipe, own, project, shards)


def make(folder, **flags):
    """The folder of a project made with these flags of redco-new."""
    request = Request.from_flags("my-project", "gpt-j", **flags)
    return create_project(request, folder)
