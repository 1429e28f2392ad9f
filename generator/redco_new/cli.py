"""The commands `redco-new` and `redco`: parse, call, print; nothing else."""

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from redco_new import assets, project
from redco_new.errors import EXIT_CODE, RedcoError
from redco_new.inspect import page
from redco_new.request import Request

INTERRUPTED = 130  # as shells count SIGINT

Model = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="The model: a family that redco knows, such as gpt-j, or your own class, nets.py:Net.",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="For your own class: TOML with its [model] and [inputs]."),
]
Example = Annotated[
    str | None,
    typer.Option(
        metavar="FILE:NAME", help="For your own class: a function that gives (arguments, inputs)."
    ),
]
Shards = Annotated[
    str | None,
    typer.Option(metavar="N", help="Devices that each tensor is split over: the axis `model`."),
]
Mesh = Annotated[
    str | None,
    typer.Option(
        metavar="AXES", help="All axes at once: data=2,fsdp=1,model=4; data=-1: the rest."
    ),
]
Zero = Annotated[
    int, typer.Option(metavar="STAGE", help="1: split what the optimizer keeps over `data` too.")
]
SequenceParallel = Annotated[
    bool,
    typer.Option(
        "--sequence-parallel",
        help="Split the sequence over `model` where nothing else is: less memory per device.",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="A size of the family: `redco models` lists them."),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        metavar="RECIPE", help="What is trained, such as lm: by default, what suits MODEL."
    ),
]

new_app = typer.Typer(add_completion=False, rich_markup_mode=None)
redco_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@new_app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project, and its folder.")],
    model: Model,
    shards: Shards = None,
    mesh: Mesh = None,
    size: Size = None,
    recipe: Recipe = None,
    config: Config = None,
    example: Example = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="What to compute in: bfloat16 (the default), float32."),
    ] = None,
    zero: Zero = 0,
    sequence_parallel: SequenceParallel = False,
    output: Annotated[str, typer.Option(metavar="DIR", help="The folder to create NAME in.")] = ".",
    template: Annotated[
        str | None, typer.Option(metavar="DIR", help="A fork of redco's templates to render.")
    ] = None,
) -> None:
    """Write a project that trains MODEL on as many devices as you like.

    redco-new reads the model's own computation, works out how to split each tensor, and writes a
    project that you own: plain JAX, one explicit PartitionSpec a parameter, and the three functions
    of a pipeline (collate, loss, predict), already working. The project runs without redco-new.

    \b
    Examples:
      redco-new my-project --model gpt-j --shards 4
      redco-new my-project --model gpt-j --mesh data=2,fsdp=2,model=4 --dtype float32
      redco-new my-project --model nets.py:Net --config net.toml --recipe classify --shards 4

    What happens next: the folder NAME appears, whole or not at all; nothing that exists is changed.
    Its README.md names the commands to install, train and predict, and the files in reading order.
    Then edit NAME's pipeline.py, where your data comes in. `redco inspect gpt-j --shards 4` shows
    the splitting without writing anything.
    """
    name, parent = place(name, output)
    request = Request.from_flags(
        name,
        model,
        shards=shards,
        mesh=mesh,
        size=size,
        recipe=recipe,
        config=config,
        example=example,
        folder=parent / name,
        dtype=dtype,
        zero=zero,
        sequence_parallel=sequence_parallel,
    )
    with status() as progress:
        target = project.create(request, parent, template and Path(template), progress)
    print(f"Created {target}. What to do next:\n")
    for command in next_commands(request, target):
        print(f"  {command}")


@redco_app.callback()
def redco() -> None:
    """Look at what redco-new would make of a model. `redco-new --help` tells how to make it."""


@redco_app.command("inspect")
def inspect_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A family, such as gpt-j.")],
    shards: Shards = None,
    mesh: Mesh = None,
    size: Size = None,
    recipe: Recipe = None,
    config: Config = None,
    example: Example = None,
    zero: Zero = 0,
    sequence_parallel: SequenceParallel = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write a page that draws each parameter to scale."),
    ] = None,
) -> None:
    """Show how each parameter of MODEL is split, and why, and what devices send to each other.

    Writes nothing but FILE, if it is given.

    \b
    Examples:
      redco inspect gpt-j --shards 4
      redco inspect gpt-j --mesh fsdp=2,model=4 --json
      redco inspect gpt-j --shards 4 --html plan.html
    """
    target = None if html is None else Path(html)
    if target:
        page.check(target)
    request = Request.from_flags(
        "inspected",
        model,
        shards=shards,
        mesh=mesh,
        size=size,
        recipe=recipe,
        config=config,
        example=example,
        zero=zero,
        sequence_parallel=sequence_parallel,
    )
    with status() as progress:
        progress(f"reading the model {model}")
        from redco_new import design  # here: it imports jax, which takes seconds
        from redco_new.inspect.report import report

        plan = design.plan_for(request, assets.templates())
    report(model, plan, as_json=as_json, html=target)


@redco_app.command("models")
def list_models(
    family: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="One family, such as llama.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List the models that redco has templates of: sizes, parameters, and memory to train them.

    \b
    Examples:
      redco models
      redco models llama --json
    """
    with status() as progress:
        from redco_new.inspect import catalog
        from redco_new.sources.families import FAMILIES
        from redco_new.sources.lookup import look_up

        names = list(FAMILIES) if family is None else [look_up("model", family, FAMILIES).name]
        found = list(catalog.rows(names, assets.templates(), progress))
    catalog.show(found, as_json=as_json)


def place(name: str, output: str) -> tuple[str, Path]:
    """The project's name and the folder to create it in; `name` may be an absolute path."""
    path = Path(name)
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


def next_commands(request: Request, target: Path) -> list[str]:
    """What to type after a project was created, first to last."""
    return [
        f"cd {shlex.quote(str(target))}",
        "pip install -e .",
        f"python -m {request.package}.train --preset tiny --steps 200"
        f" --virtual-devices {request.devices} --workdir runs/a",
    ]


@contextlib.contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """A function that shows what is being done, on a terminal; elsewhere it shows nothing."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("starting") as spinner:
        yield lambda step: spinner.update(f"{escape(step)} ...")


def run(app: typer.Typer, program: str, args: list[str]) -> int:
    """Run a command line and return its exit code; what the user must mend is one line on stderr."""
    try:
        code: Any = typer.main.get_command(app).main(args, program, standalone_mode=False)
    except RedcoError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return EXIT_CODE
    except typer.TyperException as error:
        what = " ".join(error.format_message().rstrip(".").split())
        print(f"{program}: command line: {what}; see {program} --help", file=sys.stderr)
        return EXIT_CODE
    if code == INTERRUPTED:
        print(f"{program}: interrupted; nothing was left behind", file=sys.stderr)
    return code or 0


def new_main() -> NoReturn:
    """The console script `redco-new`."""
    _main(new_app, "redco-new")


def redco_main() -> NoReturn:
    """The console script `redco`."""
    _main(redco_app, "redco")


def _main(app: typer.Typer, program: str) -> NoReturn:
    # So that a killed process takes its staging folder with it, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(run(app, program, sys.argv[1:]))
