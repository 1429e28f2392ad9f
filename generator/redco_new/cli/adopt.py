"""The command `redco adopt`."""

from pathlib import Path
from typing import Annotated

import typer

from redco_new.cli import options
from redco_new.cli.progress import status


def adopt(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The project.")],
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
) -> None:
    """Look after a project again that lost its .redco/, or whose package was renamed.

    What redco writes for it is found by its redco.toml, or where that is gone by its code, and by the
    flags that you give; where it differs, that counts as your edits, which updates keep. A project that
    was copied or moved whole needs none of this. Nothing is changed in it but redco.toml: its name where
    the package has another, all of it where it is missing.

    \b
    Examples:
      redco adopt my-project
      redco adopt my-project --model gpt-j --shards 4
    """
    from redco_new.update import adopt as adoption, report

    flags, root = options.request_flags(locals()), Path(folder)
    with status() as progress:
        result = adoption.adopt(root, flags, Path(template) if template else None, progress)
    report.print_adoption(root, result)
