"""The model families that redco writes itself: one module of this package each."""

import pkgutil
from importlib import import_module

from redco_new.models.family import Family


def _discover() -> dict[str, Family]:
    """Return each Family that a module here defines, by its name, in the order of the names."""
    modules = [import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    families = [x for module in modules for x in vars(module).values() if isinstance(x, Family)]
    return {x.name: x for x in sorted(families, key=lambda x: x.name)}


FAMILIES: dict[str, Family] = _discover()
