"""The commands that change nothing: `redco inspect`, `redco models`, `redco recipes`, `redco docs`, `redco diff`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redco_new.cli import options
from redco_new.cli.progress import status
from redco_new.errors import RedcoError
from redco_new.inspect import page
from redco_new.request import Request

if TYPE_CHECKING:
    from redco_plan import Plan


def inspect_model(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A family, such as gpt-j.")
    ] = None,
    shards: options.Shards = None,
    mesh: options.Mesh = None,
    size: options.Size = None,
    recipe: options.Recipe = None,
    loss: options.Loss = None,
    config: options.Config = None,
    example: options.Example = None,
    zero: options.Zero = None,
    gradients_across: options.GradientsAcross = None,
    context_attention: options.ContextAttention = None,
    sequence_parallel: options.SequenceParallel = None,
    lora: options.Lora = None,
    as_json: options.AsJson = False,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write a page that draws each parameter to scale."),
    ] = None,
) -> None:
    """Show how each parameter of MODEL is split, and why, and what devices send to each other.

    Without MODEL, that of a recipe which brings its own. Writes nothing but FILE, if it is given.

    \b
    Examples:
      redco inspect gpt-j --shards 4
      redco inspect gpt-j --mesh fsdp=2,model=4 --json
      redco inspect gpt-j --shards 4 --html plan.html
      redco inspect --recipe ddpg --shards 4
    """
    if model is None and recipe is None:
        raise RedcoError("command line", "Missing argument 'MODEL'", "see redco inspect --help")
    if model and Path(model, "redco.toml").is_file():
        what = f"{model} is a project, whose layout is in its sharding.py"
        raise RedcoError("MODEL", what, "give a model, or the --recipe that brings one")
    if target := None if html is None else Path(html):
        page.check_page_target(target)
    request = Request.from_flags(
        "inspected",
        model,
        shards=shards,
        mesh=mesh,
        size=size,
        recipe=recipe,
        loss=loss,
        config=config,
        example=example,
        zero=zero,
        gradients_across=gradients_across,
        context_attention=context_attention,
        sequence_parallel=sequence_parallel,
        lora=lora,
    )
    plan = _plan_with_notes(request, model, recipe)
    from redco_new.inspect.report import report_plan

    report_plan(model or f"the model of {recipe}", plan, as_json=as_json, html=target)


def _plan_with_notes(request: Request, model: str | None, recipe: str | None) -> "Plan":
    """Return the plan of a request; what its user should know is told beside it. Raises RedcoError."""
    notes: list[str] = []
    with status() as progress:
        progress(f"reading the model {model or f'of {recipe}'}")
        # Here: they import jax and copier, which takes seconds.
        from redco_new.generate.brought import check_brings_model
        from redco_new.generate.read import plan_request
        from redco_new.models.recipes import RECIPES
        from redco_new.render.template import open_template

        if model in RECIPES and recipe is None:
            check_brings_model(model, f"redco inspect {{}} --recipe {model}")
            raise RedcoError("MODEL", f"{model} is a recipe", f"see redco inspect --recipe {model}")
        if model is None and recipe:
            check_brings_model(recipe, f"redco inspect {{}} --recipe {recipe}")
        with open_template() as template:
            plan = plan_request(request, template, notes.append)
    for text in notes:
        typer.echo(f"note: {text}", err=True)  # beside the JSON
    return plan


def list_models(
    family: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="One family, such as llama.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the models that redco has templates of: sizes, parameters, and memory to train them.

    \b
    Examples:
      redco models
      redco models llama --json
    """
    with status() as progress:
        from redco_new.inspect import catalog
        from redco_new.models.families import FAMILIES
        from redco_new.render.template import open_template
        from redco_new.request.lookup import look_up

        names = list(FAMILIES) if family is None else [look_up("model", family, FAMILIES).name]
        with open_template() as template:
            sizes = list(catalog.list_sizes(names, template, progress))
    catalog.print_catalog(sizes, as_json=as_json)


def show_recipes(as_json: options.AsJson = False) -> None:
    """List the recipes: what each learns, of what model and data, and the lines of its pipeline.py.

    \b
    Examples:
      redco recipes
      redco recipes --json
    """
    with status() as progress:
        progress("counting lines")
        from redco_new.inspect import recipes
        from redco_new.render.template import open_template

        with open_template() as template:
            rows = list(recipes.list_recipes(template))
    recipes.print_recipes(rows, as_json=as_json)


def show_docs(
    page: Annotated[
        str | None,
        typer.Argument(metavar="[PAGE]", help="Such as how-to/data.", show_default=False),
    ] = None,
) -> None:
    """Show a page of the documentation, or list them.

    \b
    Examples:
      redco docs
      redco docs recipes/sft
    """
    from redco_new.render import assets

    folder = assets.docs()
    paths = sorted(folder.rglob("*.md"))
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in paths}
    if page is None:
        width = max(map(len, pages))
        for name, path in pages.items():
            title = path.read_text().partition("\n")[0].removeprefix("# ")
            print(f"{name:{width}}  {title}")
        return
    if page not in pages:
        raise RedcoError("PAGE", f"there is no page {page!r}", "`redco docs` lists them")
    text = pages[page].read_text()
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text, end="")


def show_edits(
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="A file, or a folder, of the project.")
    ] = "",
) -> None:
    """Print what you made of what redco wrote, as a patch: the runtime too. Files of your own are not in it.

    \b
    Examples:
      redco diff
      redco diff my_project/model.py
    """
    from redco_new.project.state import find_root, read_project_state
    from redco_new.update.patches import print_edits
    from redco_new.update.run import check_finished

    root = find_root(Path(path or "."))
    check_finished(root)
    print_edits(read_project_state(root), path)
