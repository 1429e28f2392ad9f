"""The commands that change a project: `redco update`, `redco resolve`, `redco eject`."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from redco_new.cli import options
from redco_new.cli.progress import status
from redco_new.errors import RedcoError
from redco_new.request.license import license_notes

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The project, or a folder in it.")]
Target = Annotated[str, typer.Argument(metavar="PATH[::SYMBOL]", help="What is to be settled.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Tell what would change, by symbol; write nothing.")
]
Diff = Annotated[
    str | None,
    typer.Option(
        metavar="[PATH]", help="Print what would change, in PATH or in all; write nothing."
    ),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="For CI: exit code 1 if an update would change anything."),
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="Apply what is not in conflict; your side of the rest stays."),
]
Restore = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Bring PATH back as redco last wrote it, and do nothing else; move one that you edited"
        " aside first.",
    ),
]
PrintModel = Annotated[
    bool,
    typer.Option(
        "--print-model",
        help="Print model.py and weights.py from the PyTorch class again, and merge them into yours.",
    ),
]


def update(
    folder: Folder = ".",
    model: options.Model = None,
    shards: options.Shards = None,
    mesh: options.Mesh = None,
    size: options.Size = None,
    recipe: options.Recipe = None,
    loss: options.Loss = None,
    config: options.Config = None,
    example: options.Example = None,
    dtype: options.Dtype = None,
    products: options.Products = None,
    zero: options.Zero = None,
    optimizer_memory: options.OptimizerMemory = None,
    gradients_across: options.GradientsAcross = None,
    context_attention: options.ContextAttention = None,
    sequence_parallel: options.SequenceParallel = None,
    sequence_length: options.SequenceLength = None,
    features: options.Features = None,
    lora: options.Lora = None,
    dropout: options.Dropout = None,
    launch: options.Launch = None,
    via: options.Via = None,
    license: options.License = None,
    template: options.Template = None,
    dry_run: DryRun = False,
    diff: Diff = None,
    check: Check = False,
    as_json: options.AsJson = False,
    partial: Partial = False,
    restore: Restore = None,
    print_model: PrintModel = False,
) -> int:
    """Bring a project up to date with its redco.toml, its model.py and redco, and lose nothing in it.

    The model is read anew, as you have it in model.py, and each file is merged three ways: what redco
    wrote before, what you made of it, what redco writes now. collate, loss and predict are never merged
    into once you have edited them. What you and redco both changed is a conflict: then nothing is
    written until you settle it. The merged project takes one step in a copy before it is written.
    A generated file that is missing comes back; one of yours that you deleted stays deleted.

    \b
    Examples:
      redco update
      redco update --shards 8
      redco update my-project --model llama --dry-run
      redco update --diff my_project/sharding.py
      redco update --check --json
      redco update --restore my_project/pipeline.py

    Exit codes: 0 done, or nothing to do; 1 a conflict, or with --check anything to do; 2 bad input.
    """
    flags = options.request_flags(locals())
    _one_of(
        {
            "--dry-run": dry_run,
            "--diff": diff is not None,
            "--check": check,
            "--partial": partial,
            "--restore": restore is not None,
        }
    )
    if as_json and not check:
        raise RedcoError("--json", "is the form of --check", "give both")
    from redco_new.update import patches, report
    from redco_new.project.state import find_root
    from redco_new.update.run import preview_update

    if not Path(folder).is_dir():
        raise RedcoError(folder, "no such folder", "give that of a project that redco-new made")
    root, source = find_root(Path(folder)), Path(template) if template else None
    if restore is not None:
        if present := _spell({**flags, "template": template, "print_model": print_model or None}):
            what = f"brings back what redco last wrote, and {present[0]} asks for something else"
            raise RedcoError("--restore", what, "give one of them")
        return _restore(root, restore)
    if not (dry_run or check or diff is not None):
        return change(root, flags, source, partial=partial, print_model=print_model)

    with status() as progress:
        plan = preview_update(root, flags, source, progress, print_model=print_model)
    if check:
        return report.print_check(plan, as_json=as_json)
    if diff is not None:
        return patches.print_diff(plan, diff)
    return report.print_dry_run(plan)


def _one_of(modes: Mapping[str, bool]) -> None:
    """Raise RedcoError where more than one of the flags is given."""
    if sum(modes.values()) > 1:
        what = f"{' and '.join(flag for flag, on in modes.items() if on)} are given"
        raise RedcoError("command line", what, "give one of them")


def change(
    root: Path,
    flags: Mapping[str, Any],
    template: Path | None,
    *,
    partial: bool = False,
    print_model: bool = False,
) -> int:
    """Update the project `root`, and print what was done, or what is to be decided first.

    flags: as Request.with_flags takes them.  template: a fork of redco's.  Returns the exit code.
    """
    from redco_new.update import report, run

    with status() as progress:
        modes = {"partial": partial, "print_model": print_model}
        plan, notes = run.update_project(root, flags, template, progress, **modes)
    if flags.get("license"):
        notes = [*license_notes(plan.request.name, plan.request.copyright), *notes]
    where = [] if root == Path() else [shlex.quote(str(root))]
    again = ["--print-model"] if print_model else []
    words = ["redco update", *where, *_spell({**flags, "template": template}), *again]
    command = " ".join(words)
    return report.print_update(plan, notes, partial=partial, command=command)


def _restore(root: Path, argument: str) -> int:
    """Bring one file back, and print that. Returns the exit code."""
    from redco_new.project.state import path_in_project
    from redco_new.update.restore import restore

    if restore(root, path_in_project(root, argument)):
        print(f"Restored {argument}, as redco last wrote it.")
    else:
        print(f"{argument} is as redco last wrote it: nothing to restore.")
    return 0


def _spell(flags: Mapping[str, Any]) -> list[str]:
    """Return the flags that have a value, as they are typed."""
    words = []
    for name, value in flags.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words.append(f"--{flag} {shlex.quote(str(value))}")
    return words


def resolve(
    target: Target,
    mine: Annotated[bool, typer.Option("--mine", help="Your file stays as it is there.")] = False,
    theirs: Annotated[bool, typer.Option("--theirs", help="Take what redco writes there.")] = False,
) -> None:
    """Settle a conflict of `redco update`: your side, or redco's.

    \b
    Examples:
      redco resolve my_project/model.py::Layer.__call__ --mine
      redco resolve my_project/pipeline.py::loss --theirs
      redco resolve my_project/model.py --mine
    """
    if mine == theirs:
        raise RedcoError(
            "command line", "whose side it is to be is not clear", "give --mine or --theirs"
        )
    from redco_new.update import report
    from redco_new.project.state import find_root, path_in_project
    from redco_new.update.resolve import resolve

    root = find_root(Path(target.partition("::")[0]))
    pending = resolve(root, path_in_project(root, target), "mine" if mine else "theirs")
    report.print_resolved(pending)


def undo(folder: Folder = ".") -> None:
    """Take the last update back: each file that it changed is as it was, redco's own records too.

    One update is kept, until it is undone or another one is made. Where a file that it changed was edited
    since, nothing is: those are named.

    \b
    Examples:
      redco undo
      redco undo my-project
    """
    from redco_new.project.state import find_root
    from redco_new.update.undo import undo

    if not Path(folder).is_dir():
        raise RedcoError(folder, "no such folder", "give that of a project that redco-new made")
    root = find_root(Path(folder))
    files = undo(root)
    for file in files:
        print(f"as before the update: {file}")
    print(f"Undone: {len(files)} files are as they were before the last update.")


def eject(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A generated file, or folder.")],
) -> None:
    """Make a generated file yours: redco leaves it alone from then on.

    \b
    Examples:
      redco eject my_project/sharding.py
      redco eject launch
    """
    from redco_new.update.eject import eject
    from redco_new.project.state import find_root, path_in_project

    root = find_root(Path(path))
    for file in eject(root, path_in_project(root, path)):
        print(f"{file} is yours: redco leaves it alone from now on.")
