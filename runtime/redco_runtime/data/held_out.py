"""Prompts that are numbers of held-out examples."""

from collections.abc import Sequence

from ..base.examples import Example
from ..base.messages import UserError


def held_out_example(held_out: Sequence[Example], text: str) -> Example:
    """Return the held-out example of a number, from 0. Raises UserError where there is none."""
    if not (number := str(text)).isdecimal() or int(number) >= len(held_out):
        todo = f"give the number of a held-out example, of which there are {len(held_out)}, from 0"
        if not len(held_out):
            todo = "no example is held out: hold some out in examples() of pipeline.py, or give no number"
        raise UserError(f"--prompt: {number}: {todo}")
    return held_out[int(number)]
