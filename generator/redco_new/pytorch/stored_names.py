"""What checkpoints of transformers call the tensors of a class, where that is not what the class calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from redco_new.pytorch.experts import by_checkpoint_names
from redco_new.pytorch.printed import Stored


def checkpoint_keys(module: Any) -> dict[str, str]:
    """Return name in the state_dict -> in checkpoints, of what they have as it is; by transformers' own conversion."""
    from transformers.core_model_loading import revert_weight_conversion

    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    names = {id(tensor): name for name, tensor in state.items()}
    stored = revert_weight_conversion(module, state)
    return {names[id(x)]: key for key, x in stored.items() if id(x) in names}


def unread_names(module: nn.Module, keys: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of tensors that checkpoints have in another form: parts of them, several in one, or not at all."""
    state = module.state_dict()
    names = by_checkpoint_names(module, dict(state))
    left_out = {*(getattr(module, "_keys_to_ignore_on_save", None) or ())}
    return tuple(name for name in names if name in state and (name not in keys or name in left_out))


def by_keys(keys: Mapping[str, str], table: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return path in the printed model -> how checkpoints store it. keys: as `checkpoint_keys` gives them"""
    return {path: replace(one, name=_renamed(keys, one)) for path, one in table.items()}


def _renamed(keys: Mapping[str, str], stored: Stored) -> str:
    """Return what checkpoints call a tensor, with {} for its layer where its name has it."""
    name, places = stored.name, (stored.first, stored.first + stored.step)
    if name.count("{}") != 1:
        return keys.get(name, name)
    first, second = (keys.get(name.format(i), name.format(i)).split(".") for i in places)
    if len(first) != len(second):
        return name
    pairs = zip(first, second, strict=True)
    own = ["{}" if (x, y) == (*map(str, places),) else x for x, y in pairs]
    return ".".join(own) if own.count("{}") == 1 else name
