"""Parts of the runtime that a project has where it was asked for them: `features` of its redco.toml."""

from importlib import import_module
from typing import Any

from .errors import UserError


def feature(name: str, module: str, where: str = "", flag: str = "") -> Any:
    """Return a module of the runtime that one feature brings. Raises UserError where this project lacks it.

    where: what asks for it, for the message. flag: of `redco update`, which brings it.
    """
    if part := if_asked_for(module):
        return part
    todo = f"`redco update {flag or f'--features {name}'}` brings it"
    place = f"{where}: " if where else ""
    raise UserError(f"{place}this project was made without {name}: {todo}")


def if_asked_for(module: str) -> Any:
    """Return a module of the runtime that a feature brings; None where this project lacks it."""
    whole = f"{__name__.removesuffix('.base.features')}.{module}"
    try:
        return import_module(whole)
    except ModuleNotFoundError as error:
        if error.name != whole:
            raise
        return None
