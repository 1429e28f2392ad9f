"""Whether arguments and inputs fit the constructor and the call of a class of the user's own."""

from __future__ import annotations

import difflib
import inspect
import keyword
from collections.abc import Mapping
from typing import Any

from redco_new.errors import RedcoError
from redco_new.request.own_class import Input

OF_FLAX = {"self", "parent", "name", "rngs"}  # arguments that the user does not give
# What classes call the argument of their call that tells training from evaluation: its value in training.
MODES = {
    **dict.fromkeys(("train", "training", "is_training", "is_train"), True),
    **dict.fromkeys(("deterministic", "use_running_average", "inference"), False),
}


def check_arguments(
    where: str, name: str, signature: inspect.Signature, arguments: Mapping[str, Any]
) -> bool:
    """Whether a constructor takes rngs. Raises RedcoError for arguments that do not fit it."""
    takes = {k: p for k, p in signature.parameters.items() if k not in OF_FLAX}
    names = [key for key, p in takes.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    any_name = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    check_names(f"{where}: [model]", f"{name} takes no", arguments, names, any_name)
    lacking = [
        key
        for key in names
        if takes[key].default is inspect.Parameter.empty and key not in arguments
    ]
    if lacking:
        what = f"{name} needs {', '.join(lacking)}"
        todo = f"give {lacking[0]} = ... in [model] of a file of --config, or a function: --example"
        raise RedcoError(where, what, todo)
    return "rngs" in signature.parameters


def check_inputs(
    where: str, name: str, signature: inspect.Signature, inputs: Mapping[str, Input]
) -> str:
    """The mode of a call, or "". Raises RedcoError for inputs that do not fit it."""
    takes = {k: p for k, p in signature.parameters.items() if k != "self"}
    mode = next((key for key in takes if key in MODES and key not in inputs), "")
    names = [key for key, p in takes.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    any_name = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    check_names(f"{where}: [inputs]", f"a call of {name} takes no", inputs, names, any_name)
    lacking = [
        key
        for key in names
        if takes[key].default is inspect.Parameter.empty and key not in inputs and key != mode
    ]
    if not inputs:
        what = f"the inputs of {name} are not known"
        raise RedcoError(
            where, what, "give [inputs] in a file of --config, or a function: --example"
        )
    if lacking:
        what = f"a call of {name} needs {', '.join(lacking)}"
        raise RedcoError(f"{where}: [inputs]", what, f"add the shape and dtype of {lacking[0]}")
    return mode


def check_names(
    where: str, refusal: str, given: Mapping[str, Any], names: list[str], any_name: bool
) -> None:
    """Raise RedcoError for the first of `given` that is none of `names`."""
    for key in given:
        if not key.isidentifier() or keyword.iskeyword(key):
            raise RedcoError(where, f"{key!r} is no name of an argument", "correct it")
        if key not in names and not any_name:
            near = difflib.get_close_matches(key, names, n=1)
            known = f"it takes {', '.join(names)}" if names else "leave it out"
            raise RedcoError(
                where, f"{refusal} {key}", f"did you mean {near[0]}?" if near else known
            )
