"""What redco is doing, shown on a terminal."""

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is being done, on a terminal; elsewhere it shows nothing."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("starting") as spinner:
        yield lambda step: spinner.update(f"{escape(step)} ...")
