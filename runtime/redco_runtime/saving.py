"""What the program that is traced saves for the backward pass, and whether its layers are written out."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# The name of the logits of all tokens, which `cross_entropy` else makes again, some at a time.
LOGITS = "logits_BSV"


@dataclass(frozen=True)
class Choice:
    """names: of the arrays that are saved; None: all names. written_out: layers follow each other, in no loop."""

    names: tuple[str, ...] | None = ()
    written_out: bool = False


CHOICE: ContextVar[Choice] = ContextVar("choice", default=Choice())  # noqa: B039 - it is frozen


@contextmanager
def saving(names: tuple[str, ...] | None, written_out: bool = False) -> Iterator[None]:
    """Save the arrays of these names in what is traced within it; of all names by None."""
    token = CHOICE.set(Choice(names, written_out))
    try:
        yield
    finally:
        CHOICE.reset(token)
