"""The error that a user can mend."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Its message says where, what and what to do; programs print it alone and exit with 2."""


@contextmanager
def writing(what: object, *kinds: type[Exception], option: str = "--workdir") -> Iterator[None]:
    """Makes a UserError of what fails in it: `what` lies where `option` of the program says."""
    try:
        yield
    except (OSError, *kinds) as error:
        raise UserError(
            f"cannot write {what}: {getattr(error, 'strerror', None) or error}. "
            f"Mend that or choose another {option}. What was written before is whole."
        ) from error
