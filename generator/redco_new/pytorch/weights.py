"""Where PyTorch stores what the printed model holds: a table from its state_dict."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.printed import Stored


def find_stored(
    module: nn.Module, paths: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """Return (parameters, buffers): path in the printed model -> how PyTorch stores it.

    paths: of the arrays of the printed model, and their shapes
    """
    names = {path: (name, order) for name, path, order in _table(module)}
    saved = set(module.state_dict(keep_vars=True))
    parameters = dict(module.named_parameters(remove_duplicate=False))
    of_parameters: dict[str, Stored] = {}
    of_buffers: dict[str, Stored] = {}
    for path in paths:
        name, order = names[path]
        table = of_parameters if name in parameters else of_buffers
        if name in saved:
            table[path] = Stored(name, order)
    return of_parameters, of_buffers


def _table(module: nn.Module):
    """Yield (name in PyTorch, path in the printed model, order) of all that a class holds."""
    for prefix, part in module.named_modules():
        leaf = LEAVES.get(type(part))
        place = model_path(module, prefix)
        for name in [*part._parameters, *part._buffers]:
            own, order = leaf.stored.get(name, (name, ())) if leaf else (name, ())
            yield f"{prefix}.{name}".lstrip("."), "/".join([*place, own]), order


def model_path(module: nn.Module, path: str) -> list[str]:
    """Return the path in the printed model of a part: a Sequential holds its entries in `layers`."""
    names, part = [], module
    for name in path.split(".") if path else ():
        inside = (
            isinstance(part, nn.Sequential)
            or name.isdigit()
            and not isinstance(part, nn.ModuleList)
        )
        names += ["layers", name] if inside else [name]
        part = part.get_submodule(name)
    return names
