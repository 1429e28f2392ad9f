"""The pages of exit codes, messages, launchers and families."""

from __future__ import annotations

from pathlib import Path

from docs.markdown import table
from docs.messages import messages
from redco_new.errors import RedcoError, Refusal
from redco_new.inspect import catalog
from redco_new.models.families import FAMILIES
from redco_new.render.template import open_template
from redco_new.request.launch import DEFAULT_LAUNCH, LAUNCH_FILES
from redco_runtime.base.messages import UserError
from redco_runtime.base.interrupts import INTERRUPTED
from redco_runtime.cluster.launch import LOST, STOPPED
from redco_runtime.step.guard import UnsoundError

ROOT = Path(__file__).parents[3]
ROOMS = ("generator/redco_new", "generator/redco_fit", "runtime/redco_runtime")
ENDS = {  # exit code -> what it means, and what the same command does then
    0: ("done", "says so"),
    1: ("a fault of the program", "goes on from the last checkpoint"),
    UserError.code: (
        "the command, the data or the launch is wrong: the message names it",
        "the same again, until that is mended",
    ),
    UnsoundError.code: (
        "a loss or gradient that is no number; `--spike 10`: or 10 times its mean",
        "takes the same step again: `--on-nan skip` leaves it out",
    ),
    LOST: (
        "a process is gone or never came: the last line says which, where, and how it went",
        "goes on from the last checkpoint",
    ),
    STOPPED: (
        "SIGTERM, SIGHUP or Ctrl-C, in any process: all have saved the same step",
        "goes on from that step",
    ),
    INTERRUPTED: (
        "a second Ctrl-C, a second after the first or more, or one before the first step",
        "goes on from the last checkpoint",
    ),
}
OURS = {
    0: "done, or nothing to do; `redco fit`: it fits",
    Refusal.exit_code: "a conflict, a merged project that does not run; with `--check`, anything to do; `redco fit`: it does not fit",
    RedcoError.exit_code: "bad input, or a project that cannot be read or written to",
    INTERRUPTED: "Ctrl-C: nothing was left behind",
}
EXITS = """# Exit codes

A program of a project ends with one message that says where, what and what to do, and with a code that a script can go by:

{theirs}
Where there are several processes, all end with the code of the one that failed first. No restart by a launcher follows 0, 2, 3 and 75.

Of `redco-new` and `redco`:

{ours}"""
ERRORS = """# Messages

Each message says where, what, and what to do. Here are all of them, by the package and room that has them; … is what is known only when it is said.
Programs of redco end with [exit code](exit-codes.md) 2 after one, those of a project mostly too.
"""
LAUNCH = """# Launchers

`redco-new --launch NAMES` says which files a project has in `launch/`; without it, {default}. Each starts the project's programs under
`python -m my_project.runtime.cluster.launch`, and its first lines say how it is used.

{table}"""
FAMILY = """# Families and sizes

`redco-new NAME --model MODEL --size SIZE`; the first size of a family is the default. To train: 16 bytes a parameter (itself, its gradient and two moments of
Adam, in float32), which the devices share; activations come on top, and [an adapter](../tutorials/lora.md) takes far less.

"""
ALIKE = """
Layers that are alike, which the axis [stage](../how-to/mesh.md) asks for: {alike}.

llama.cpp [opens](../how-to/export.md): {opened}.
"""


def exit_codes() -> str:
    """Return the page of exit codes, of the constants that the programs end with."""
    theirs = ((str(code), *ENDS[code]) for code in sorted(ENDS))
    ours = ((str(code), OURS[code]) for code in sorted(OURS))
    return EXITS.format(
        theirs=table(("code", "what it means", "the same command"), theirs),
        ours=table(("code", "what it means"), ours),
    )


def errors() -> str:
    """Return the page of all messages, by the room that has them."""
    parts = [ERRORS]
    for root in ROOMS:
        folders: dict[str, set[tuple[str, ...]]] = {}
        for path in sorted((ROOT / root).rglob("*.py")):
            room = path.relative_to(ROOT / root).parts[0].removesuffix(".py")
            folders.setdefault(room, set()).update(map(tuple, messages(path)))
        for room, some in folders.items():
            rows = sorted(
                {(" : ".join(x[:2]).replace(" : ", ": "), x[2] if x[2:] else "") for x in some}
            )
            if rows:
                parts += [f"## {Path(root).name}: {room}\n", table(("message", "what to do"), rows)]
    return "\n".join(parts)


def launchers() -> str:
    """Return the page of the files of launch/."""
    rows = (
        (f"`{name}`", f"`{x.path}`", x.title, x.crash, x.stop, x.code)
        for name, x in LAUNCH_FILES.items()
    )
    head = (
        "`--launch`",
        "file",
        "it starts",
        "a crash",
        "SIGTERM: all save the same step",
        "its exit code",
    )
    return LAUNCH.format(default=",".join(DEFAULT_LAUNCH), table=table(head, rows))


def families() -> str:
    """Return the page of families and sizes, as `redco models` counts them: half a minute."""
    with open_template() as template:
        sizes = [*catalog.list_sizes(list(FAMILIES), template)]
    rows = (
        (
            x["model"],
            x["size"],
            f"{x['parameters']:,}",
            f"{x['training_bytes'] / 1e9:,.1f}",
            x["recipe"],
            x["checkpoint"],
        )
        for x in sizes
    )
    head = ("model", "size", "parameters", "GB to train", "recipe", "Hugging Face id")
    alike = ", ".join(name for name, x in FAMILIES.items() if x.alike)
    opened = ", ".join(name for name, x in FAMILIES.items() if x.gguf)
    return FAMILY + table(head, rows) + ALIKE.format(alike=alike, opened=opened)
