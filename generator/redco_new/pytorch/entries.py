"""Parts that a class also puts into a Sequential, as `self.conv` of `self.net = nn.Sequential(self.conv, ...)`: entries of that."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn


def keep_entries(module: nn.Module) -> None:
    """Make such parts entries alone, which are called by their places. By their own names they are found as before."""
    for owner in module.modules():
        for name, part, _ in [*_entries_by_name(owner)]:
            owner._modules.pop(name, None)
            vars(owner)[name] = part


def saved_names(module: nn.Module) -> dict[str, str]:
    """Return name of each tensor of such a part -> as PyTorch saves it: by the first of all names in their order, as safetensors."""
    names: dict[str, str] = {}
    for path, owner in module.named_modules():
        for name, part, place in _entries_by_name(owner):
            for tensor in part.state_dict():
                own, other = (f"{path}.{x}.{tensor}".lstrip(".") for x in (place, name))
                names[own] = min(names.get(own, own), other)
    return names


def _entries_by_name(owner: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield (own name, part, place) of each part of a class that is an entry of a Sequential of the class, too."""
    places = {
        id(entry): f"{name}.{place}"
        for name, part in owner._modules.items()
        if isinstance(part, nn.Sequential)
        for place, entry in part._modules.items()
    }
    for name, part in {**owner._modules, **vars(owner)}.items():
        if isinstance(part, nn.Module) and id(part) in places:
            yield name, part, places[id(part)]
