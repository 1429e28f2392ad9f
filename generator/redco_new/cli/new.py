"""The command `redco-new`."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redco_new.project.create import create_project
from redco_new.cli import options
from redco_new.cli.change import change
from redco_new.cli.choose import check_alone, choose_mesh
from redco_new.cli.progress import status
from redco_new.errors import RedcoError
from redco_new.project.importable import check_hides_nothing
from redco_new.project.manifest import MANIFEST
from redco_new.request import Request
from redco_new.request.license import license_notes

if TYPE_CHECKING:
    from redco_new.generate.context import ProjectContext

new_app = typer.Typer(rich_markup_mode=None)


@new_app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project, and its folder.")],
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
    hardware: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:SHAPE]",
            help="Choose the mesh for it, such as h100:8, by an estimate: redco fit --list.",
        ),
    ] = None,
    output: Annotated[str, typer.Option(metavar="DIR", help="The folder to create NAME in.")] = ".",
    template: options.Template = None,
    version: options.Version = False,
) -> int | None:
    """Write a project that trains MODEL on as many devices as you like.

    redco-new reads the model's own computation, works out how to split each tensor, and writes a
    project that you own: plain JAX, one explicit PartitionSpec a parameter, and the three functions
    of a pipeline (collate, loss, predict), already working. The project runs without redco-new.

    \b
    Examples:
      redco-new my-project --model gpt-j --shards 4
      redco-new my-project --model gpt-j --mesh data=2,fsdp=2,model=4 --dtype float32
      redco-new my-project --model llama --size 3.1-8b --hardware h100:8
      redco-new my-project --model nets.py:Net --config net.toml --recipe classify --shards 4
      redco-new my-project --recipe maml

    What happens next: the folder NAME appears, whole or not at all. Its README.md names the commands
    to install, train and predict, and the files in reading order. Then edit NAME's pipeline.py, where
    your data comes in. `redco inspect gpt-j --shards 4` shows the splitting without writing anything.

    If NAME is a project that redco-new made, it is updated, as by `redco update`: nothing that you
    wrote in it is lost.
    """
    flags = options.request_flags(locals())
    name, parent = split_name(name, output)
    source = Path(template) if template else None
    check_alone(hardware, shards, mesh, zero)
    if os.path.lexists(parent / name / MANIFEST):
        if hardware is not None:
            todo = f"redco fit {name} --hardware {hardware} --search --apply changes its mesh"
            raise RedcoError("--hardware", f"{name} is a project already", todo)
        return change(parent / name, flags, source)
    request = Request.from_flags(name, folder=parent / name, **flags)
    check_hides_nothing("NAME", request.package)
    notes = license_notes(request.name, request.copyright)
    seen: list[ProjectContext] = []
    with status() as progress:
        if hardware is not None:
            request, choice = choose_mesh(request, hardware, progress)
            notes.append(choice)
        target = create_project(request, parent, source, progress, notes.append, seen.append)
    for note in notes:
        print(f"note: {note}")
    print(f"Created {target}. What to do next:\n")
    starts = bool(seen[0].model.checkpoint)
    for command in next_commands(request, target, seen[0].layout.first.trial, checkpoint=starts):
        print(f"  {command}")
    return None


def split_name(name: str, output: str) -> tuple[str, Path]:
    """Return the project's name and the folder to create it in; `name` may be an absolute path."""
    path = Path(name)
    if "://" in output:
        raise RedcoError("--output", f"{output} is no folder of this machine", "give one")
    if ".." in path.parts:
        raise RedcoError("NAME", f"{name!r} leads out of its folder", "use --output for the folder")
    if not path.is_absolute():
        if len(path.parts) > 1:
            what = f"{name!r} has a folder in it"
            raise RedcoError("NAME", what, f"give it with --output {shlex.quote(str(path.parent))}")
        return name, Path(output)
    if output != ".":
        todo = "give the folder once, in NAME or in --output"
        raise RedcoError("NAME", f"{name!r} is a full path, and --output is given too", todo)
    return path.name, path.parent


def next_commands(
    request: Request, target: Path, trial: str, *, checkpoint: bool = True
) -> list[str]:
    """Return what to type after a project was created, first to last.

    trial: the flags of a first run.
    checkpoint: whether the project starts from the weights of its checkpoint of its own accord.
    """
    commands = [
        f"cd {shlex.quote(str(target))}",
        "pip install -e .",
        f"python -m {request.package}.train --preset tiny --steps 200 {trial} --workdir runs/a",
    ]
    from redco_new.models.find import is_checkpoint  # here: it imports jax, which takes seconds

    if request.is_family and is_checkpoint(request.model):
        init = "" if checkpoint else f"--init {shlex.quote(request.model)} "
        commands.append(
            f"python -m {request.package}.train {init}--workdir runs/full  # from its weights"
        )
    return commands
