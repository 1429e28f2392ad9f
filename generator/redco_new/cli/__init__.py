"""The commands `redco-new` and `redco`: parse, call, print; nothing else."""

import gc
import os
import signal
import sys
from typing import Any, NoReturn

import typer

from redco_new.cli import adopt, change, check, doctor, fit, look, merge_driver, options, report
from redco_new.cli.new import new_app
from redco_new.errors import RedcoError

INTERRUPTED = 130  # as shells count SIGINT
# Containers between two searches for cyclic garbage: imports make a million that stay, and searching
# them as often as Python does by itself, and once more at the end, is a quarter of the CPU time of redco-new.
COLLECTED = 1_000_000

redco_app = typer.Typer(rich_markup_mode=None)
redco_app.command("inspect")(look.inspect_model)
redco_app.command("fit")(fit.fit)
redco_app.command("report")(report.report)
redco_app.command("models")(look.list_models)
redco_app.command("recipes")(look.show_recipes)
redco_app.command("docs")(look.show_docs)
redco_app.command("update")(change.update)
redco_app.command("check")(check.check)
redco_app.command("diff")(look.show_edits)
redco_app.command("undo")(change.undo)
redco_app.command("doctor")(doctor.doctor)
redco_app.command("resolve")(change.resolve)
redco_app.command("eject")(change.eject)
redco_app.command("adopt")(adopt.adopt)
redco_app.command("merge-driver")(merge_driver.merge_driver)


@redco_app.callback()
def redco(version: options.Version = False) -> None:
    """Look at what redco-new would make of a model; update a project that it made.

    `redco-new --help` tells how to make one.
    """


def run(app: typer.Typer, program: str, args: list[str]) -> int:
    """Run a command line and return its exit code; what the user must mend is one line on stderr."""
    try:
        command = typer.main.get_command(app)
        code: Any = command.main(with_values(args), program, standalone_mode=False)
    except RedcoError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except typer.TyperException as error:
        what = " ".join(error.format_message().rstrip(".").split())
        context = getattr(error, "ctx", None)  # of usage errors: it knows the command of a program
        command_path = context.command_path if context else program
        print(f"{program}: command line: {what}; see {command_path} --help", file=sys.stderr)
        return RedcoError.exit_code
    except (
        OSError
    ) as error:  # of a path that is too long, of a disk: what is read and written says its own
        if error.filename is None:
            raise
        failure = RedcoError(str(error.filename), str(error.strerror), "mend that and run it again")
        print(f"{program}: {failure}", file=sys.stderr)
        return RedcoError.exit_code
    if code == INTERRUPTED:
        print(f"{program}: interrupted; nothing was left behind", file=sys.stderr)
    return code or 0


def with_values(args: list[str]) -> list[str]:
    """Return the arguments, with an empty value for a --diff that has none."""
    after = [*args[1:], "--"][: len(args)]
    return [
        "--diff=" if arg == "--diff" and next.startswith("-") else arg
        for arg, next in zip(args, after, strict=True)
    ]


def new_main() -> NoReturn:
    """Run the console script `redco-new`."""
    _main(new_app, "redco-new")


def redco_main() -> NoReturn:
    """Run the console script `redco`."""
    _main(redco_app, "redco")


def _main(app: typer.Typer, program: str) -> NoReturn:
    gc.set_threshold(COLLECTED)
    # Nothing here computes on a device: JAX need not look for one, nor say which it does not find.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # So that a killed process takes its staging folder with it, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    code = run(app, program, sys.argv[1:])
    gc.freeze()  # the last search has nothing to look at
    sys.exit(code)
