"""What programs print, for people who may have gone."""

import os
import sys


def show(text: str) -> None:
    """Print a text. Once nobody reads it any more, as after `| head`, nothing is printed, and all else goes on."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # In its place, so that what is still to be written, at the end by Python itself, does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
