"""The command `redco fit`: whether a project's step fits a machine that is not here."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redco_new.cli import options
from redco_new.cli.choose import check_alone
from redco_new.cli.progress import status
from redco_new.errors import RedcoError
from redco_new.inspect import page
from redco_new.request import Request
from redco_new.request.mesh import parse_mesh

if TYPE_CHECKING:
    from redco_fit.reading import Reading

NO_FIT = 1  # the exit code of a step that does not fit
WHERE = ("model", "shards", "mesh")  # what `Task.request` is told beside its settings


def fit(
    folder: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="The project; by default, the one here.")
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(metavar="NAME[:SHAPE]", help="Such as h100:8, a100-80g:4x8, v5p:2x2x4."),
    ] = None,
    model: options.Model = None,
    shards: options.Shards = None,
    mesh: options.Mesh = None,
    batch: Annotated[
        int | None, typer.Option(metavar="B", min=1, help="Examples of a step, over all devices.")
    ] = None,
    seq: Annotated[int | None, typer.Option(metavar="S", min=1, help="Tokens of each.")] = None,
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
    as_json: options.AsJson = False,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page that draws memory and time.")
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Find the fastest mesh that fits, by an estimate.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="With --search: write it into redco.toml, and update.")
    ] = False,
    list_hardware: Annotated[
        bool, typer.Option("--list", help="List the hardware, and do nothing else.")
    ] = False,
) -> int:
    """Compile the train step of a project, or of MODEL, for HARDWARE, and tell whether it fits.

    Needs no such device: XLA's own compilers say what the step needs of each device's memory, what
    devices send each other, and how much it computes; your model and your loss as you edited them.
    Of your data, one example is read. Writes nothing but FILE, if it is given.

    \b
    Examples:
      redco fit --hardware h100:8
      redco fit my-project --hardware v5p:4x4x4 --mesh fsdp=16,model=4 --batch 64
      redco fit --model llama --size 3.1-8b --hardware a100-80g:8 --mesh fsdp=8 --seq 4096
      redco fit --hardware h100:8 --search --apply
      redco fit --list

    With --search, data x fsdp x expert x model (with context or stage, where these do not do), ZeRO, sequence
    parallelism and micro-batches are chosen, by an estimate of the model as redco writes it; the best is compiled, where its compiler is installed.

    Exit codes: 0 it fits; 1 it does not; 2 bad input, or no compiler.
    """
    flags = locals()
    if list_hardware:
        from redco_fit import report

        report.print_hardware()
        return 0
    task = read_task(flags)
    if search:
        check_alone(hardware, shards, mesh, zero)
        return search_meshes(task, apply)
    if apply:
        raise RedcoError("--apply", "is what becomes of a --search", "give both")
    return compile_task(task, shards, mesh)


@dataclass(frozen=True)
class Task:
    """Whose step is compiled, for what, and how that is told.

    folder: of a project; None for the one here, or for a model.
    model: in the place of a project; settings: flags of its own -> their values.
    batch: examples; seq: tokens of each.
    html: the page that is written, if any is.
    """

    folder: str | None
    model: str | None
    settings: Mapping[str, Any]
    hardware: str
    batch: int | None
    seq: int | None
    as_json: bool
    html: Path | None

    @property
    def place(self) -> Path:
        """The folder of the project."""
        return Path(self.folder or ".")

    @property
    def title(self) -> str:
        """What it is, for people."""
        return self.model or self.place.resolve().name

    def request(self, shards: str | None = None, mesh: str | None = None) -> Request:
        """Return what the model is asked for with. Raises RedcoError."""
        return Request.from_flags("fitted", self.model, shards=shards, mesh=mesh, **self.settings)


def read_task(flags: Mapping[str, Any]) -> Task:
    """Return what the flags of the command ask for. Raises RedcoError where they do not go together."""
    folder, model, html = flags["folder"], flags["model"], flags["html"]
    if flags["hardware"] is None:
        raise RedcoError("command line", "Missing option '--hardware'", "redco fit --list has them")
    if folder and model:
        raise RedcoError("--model", f"is given beside the project {folder}", "give one of them")
    names = [name for name in options.REQUEST if name not in WHERE]
    settings = {name: flags[name] for name in names if flags.get(name) is not None}
    if settings and not model:
        flag = f"--{next(iter(settings)).replace('_', '-')}"
        raise RedcoError(flag, "is for --model; a project is compiled as it is", "leave it out")
    page_file = None if html is None else Path(html)
    if page_file:
        page.check_page_target(page_file)
    others = {name: flags[name] for name in ("hardware", "batch", "seq", "as_json")}
    return Task(folder, model, settings, **others, html=page_file)


def compile_task(task: Task, shards: str | None, mesh: str | None) -> int:
    """Compile the step, and say what it needs. Returns the exit code. Raises RedcoError."""
    from redco_fit import report

    axes = parse_mesh(shards, mesh) if shards or mesh else {}
    with status() as progress, ExitStack() as stack:
        place = task.place
        if task.model:
            place = temporary_project(task.request(shards, mesh), stack, progress)
        reading = compile_for(place, task.hardware, axes, task.batch, task.seq, progress)
    report.report_reading(task.title, reading, as_json=task.as_json, html=task.html)
    return 0 if reading.fits else NO_FIT


def search_meshes(task: Task, apply: bool) -> int:
    """Run a search for a project or a model. Returns the exit code. Raises RedcoError."""
    from redco_new.cli.search import run_search
    from redco_new.project.state import find_root, read_project_state
    from redco_new.update.redco_toml import read_request

    if apply and task.as_json:
        what = "is the form of a search, and --apply says what an update changes"
        raise RedcoError("--json", what, "give one of them")
    root = None
    if task.model:
        if apply:
            raise RedcoError("--apply", "is for a project", "redco-new NAME --hardware makes one")
        request = task.request()
    else:
        if not task.place.is_dir():
            raise RedcoError(
                str(task.folder), "no such folder", "give that of a project, or --model"
            )
        root = find_root(task.place)
        request = read_request(read_project_state(root))
    return run_search(
        task.title,
        root,
        request,
        task.hardware,
        task.batch,
        task.seq,
        as_json=task.as_json,
        apply=apply,
        html=task.html,
    )


def temporary_project(request: Request, stack: ExitStack, progress: Callable[[str], None]) -> Path:
    """Return a project of a request, in a folder that goes with `stack`."""
    from redco_new.project.create import create_project
    from redco_new.project.sandbox import temporary_folder

    return create_project(request, stack.enter_context(temporary_folder()), progress=progress)


def compile_for(
    folder: Path,
    hardware: str,
    mesh: Mapping[str, int],
    batch: int | None,
    seq: int | None,
    progress: Callable[[str], None],
) -> "Reading":
    """Return what the compiler of HARDWARE says of a project's step. Raises RedcoError."""
    from redco_fit.compiling import compile_step
    from redco_fit.reading import Job
    from redco_fit.target import parse_target

    target = parse_target(hardware)
    if not folder.is_dir():
        raise RedcoError(str(folder), "no such folder", "give that of a project, or --model")
    return compile_step(folder, target, Job(mesh, batch, seq), progress)
