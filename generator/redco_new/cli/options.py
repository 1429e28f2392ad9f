"""The options that several commands have."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from redco_new import __version__
from redco_new.request.features import FEATURES
from redco_new.request.launch import DEFAULT_LAUNCH, LAUNCH_FILES
from redco_new.request.license import LICENSES


def family_names() -> list[str]:
    """Return what a shell completes --model with."""
    from redco_new.models.families import FAMILIES  # here: a shell asks for it, and no command

    return list(FAMILIES)


def recipe_names() -> list[str]:
    """Return what a shell completes --recipe with."""
    from redco_new.models.recipes import RECIPES

    return list(RECIPES)


Model = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        autocompletion=family_names,
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
Dtype = Annotated[
    str | None,
    typer.Option(metavar="DTYPE", help="What to compute in: bfloat16 (the default), float32."),
]
Products = Annotated[
    str | None,
    typer.Option(
        metavar="PRODUCTS",
        help="What the layers multiply in: float8 (NVIDIA from Ada and Hopper on), int8 (TPU v5e, v5p, v6e), compute (the default): as all else.",
    ),
]
OptimizerMemory = Annotated[
    str | None,
    typer.Option(
        metavar="MEMORY",
        help="Where what the optimizer keeps lies between steps: device (the default), host: moved for each update.",
    ),
]
GradientsAcross = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        help="In what gradients go over `data`, once a step, and are added up in float32: bfloat16, float32; compute (the default): in that dtype, added up in it.",
    ),
]
ContextAttention = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="What devices of `context` have of attention: heads (the default), all positions of some; ring: keys and values go around, for more devices than heads.",
    ),
]
Zero = Annotated[
    int | None,
    typer.Option(metavar="STAGE", help="1: split what the optimizer keeps over `data` too."),
]
SequenceParallel = Annotated[
    bool | None,
    typer.Option(
        help="Split the sequence over `model` where nothing else is: less memory per device.",
    ),
]
SequenceLength = Annotated[
    int | None,
    typer.Option(
        metavar="S",
        min=0,
        help="Tokens of an example; above what MODEL was made for, its positions go on. 0: its own.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Have these too, which few projects need: "
        + "; ".join(f"{name}: {feature.what}" for name, feature in FEATURES.items())
        + ". To leave one out again: redco.toml.",
    ),
]
Lora = Annotated[
    str | None,
    typer.Option(
        metavar="ADAPTER",
        help="Train an adapter, not the model: rank=16,alpha=32,targets=q,v,base=nf4,dropout=0.05,rslora=true,dora=true,sweep=16, or any of these; off: the model.",
    ),
]
Dropout = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Drop this share in training, where the family has dropout; config: as a checkpoint's config.json says, the default.",
    ),
]
Via = Annotated[
    str | None,
    typer.Option(
        metavar="torch",
        help="Print model.py from the model's PyTorch class, also where redco knows the family: torch.",
    ),
]
Launch = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help=f"Write these files of launch/, of {', '.join(LAUNCH_FILES)}; by default {','.join(DEFAULT_LAUNCH)}.",
    ),
]
License = Annotated[
    str | None,
    typer.Option(
        metavar="LICENSE",
        help=f"Write LICENSE, by the name of git's user: {', '.join(LICENSES).lower()}; none: no file, the default.",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="A size of the family: `redco models` lists them."),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        metavar="RECIPE",
        autocompletion=recipe_names,
        help="What is trained, such as lm: by default, what suits MODEL.",
    ),
]
Loss = Annotated[
    str | None,
    typer.Option(
        metavar="LOSS", help="By which loss, of a recipe that has several: `redco recipes`."
    ),
]
Template = Annotated[
    str | None, typer.Option(metavar="DIR", help="A fork of redco's templates to render.")
]


def show_version(wanted: bool) -> None:
    """Print the version and end, where it is wanted."""
    if wanted:
        print(f"redco-new {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", is_eager=True, callback=show_version, help="Print the version."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

# What a project is asked to be, by the names that Request.from_flags and with_flags have for it.
REQUEST = (
    *("model", "shards", "mesh", "size", "recipe", "loss", "config", "example"),
    *(
        "dtype",
        "products",
        "zero",
        "optimizer_memory",
        "gradients_across",
        "context_attention",
        "sequence_parallel",
        "sequence_length",
        "features",
        "lora",
        "dropout",
        "launch",
        "via",
        "license",
    ),
)


def request_flags(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of REQUEST, of the arguments of a command."""
    return {name: arguments[name] for name in REQUEST}
