"""Examples without training: what prepare.py does."""

from typing import Any

import jax

from ..base.messages import feature, if_asked_for, print_once
from ..run.record import Run
from .example_streams import is_stream


def prepare(pipeline: Any, run: Run) -> Any:
    """Make the tokens of `--data`, where they are not made yet; print the first `run.preview` rows, or how many there are.

    No accelerator is taken. Raises UserError.
    """
    jax.config.update("jax_platforms", "cpu")
    if run.preview:
        return feature("preview", "data.preview", "--preview").preview(pipeline, run)
    train, held_out = pipeline.examples(run.config)
    rows = "rows as they come" if is_stream(train) else f"{len(train):,} rows"
    hint = ": --preview 3 shows the first" if if_asked_for("data.preview") else ""
    return print_once(f"{rows} to train on, and {len(held_out):,} held out{hint}")
