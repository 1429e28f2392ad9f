"""Prompts that are numbers of held-out examples."""

from collections.abc import Sequence

from ..base.examples import Example
from ..base.messages import UserError


def held_out_example(held_out: Sequence[Example], text: str) -> Example:
    """Return the held-out example of a number, from 0. Raises UserError where there is none."""
    if not (number := str(text)).isdecimal() or int(number) >= len(held_out):
        there = f"{len(held_out)}, from 0" if len(held_out) else "0"
        todo = f"give the number of a held-out example, of which there are {there}"
        raise UserError(f"--prompt: {number}: {todo}")
    return held_out[int(number)]
