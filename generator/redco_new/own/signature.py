"""Whether arguments and inputs fit the constructor and the call of a class of the user's own."""

from __future__ import annotations

import builtins
import difflib
import inspect
import keyword
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from redco_new.errors import RedcoError

OF_FLAX = {"self", "parent", "name", "rngs"}  # arguments that the user does not give
# What classes call the argument of their call that tells training from evaluation, and its value in
# training: `deterministic` and `use_running_average` are those of the layers of Flax itself, the
# others are frequent in training programs. An argument of another name keeps its default.
MODES = {
    **dict.fromkeys(("train", "training", "is_training", "is_train"), True),
    **dict.fromkeys(("deterministic", "use_running_average", "inference"), False),
}


@dataclass(frozen=True)
class _Parameters:
    """What a function takes by name.

    names: of its parameters
    required: those without a default
    any_name: whether it takes **kwargs
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    any_name: bool

    @staticmethod
    def of(signature: inspect.Signature, leave_out: Collection[str]) -> _Parameters:
        """Read the parameters of a signature but for `leave_out`."""
        parameters = [p for name, p in signature.parameters.items() if name not in leave_out]
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        return _Parameters(
            tuple(p.name for p in named),
            tuple(p.name for p in named if p.default is inspect.Parameter.empty),
            any(p.kind is p.VAR_KEYWORD for p in parameters),
        )

    def check_names(self, where: str, refusal: str, names: Iterable[str]) -> None:
        """Raise RedcoError for the first of `names` that is no parameter; `refusal` begins it."""
        for name in names:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise RedcoError(where, f"{name!r} is no name of an argument", "correct it")
            if name not in self.names and not self.any_name:
                near = difflib.get_close_matches(name, self.names, n=1)
                others = f"it takes {', '.join(self.names)}" if self.names else "leave it out"
                todo = f"did you mean {near[0]}?" if near else others
                raise RedcoError(where, f"{refusal} {name}", todo)


def maker_signature(value: Any) -> inspect.Signature:
    """Return what a class, function or partial takes. nnx.Module hides it behind its metaclass."""
    is_class = isinstance(value, type)
    return inspect.signature(value.__init__ if is_class else value)


def check_arguments(
    where: str, name: str, signature: inspect.Signature, arguments: Mapping[str, Any]
) -> bool:
    """Return whether a constructor takes rngs.

    where: what gave the arguments
    name: of the class

    Raises RedcoError for arguments that it does not take, or lacks.
    """
    parameters = _Parameters.of(signature, OF_FLAX)
    parameters.check_names(f"{where}: [model]", f"{name} takes no", arguments)
    if lacking := [key for key in parameters.required if key not in arguments]:
        what = f"{name} needs {', '.join(lacking)}"
        maker = _object_of(signature.parameters[lacking[0]].annotation)
        it = f'({{"{lacking[0]}": {maker}(...)}}, inputs)'
        todo = (
            f"give that object by --example FILE:FUNCTION, which returns {it}"
            if maker
            else f"give {lacking[0]} = ... in [model] of {_place(where)}"
        )
        raise RedcoError(where, what, todo)
    return "rngs" in signature.parameters


def _object_of(annotation: Any) -> str:
    """Return the name of a class whose objects no file of TOML has; "" where one has what is annotated, or nothing says."""
    if isinstance(annotation, str):  # of a module that imports annotations of __future__
        return annotation if annotation.isidentifier() and annotation not in vars(builtins) else ""
    is_class = isinstance(annotation, type) and annotation is not inspect.Parameter.empty
    of_files: tuple[object, ...] = ({}, [], (), True, 0.0, "")
    if not is_class or any(isinstance(x, annotation) for x in of_files):
        return ""
    return str(annotation.__name__)


def _place(where: str) -> str:
    """Return where a user writes down what `where` lacks: in a project, in its redco.toml."""
    return where if where.endswith(".toml") else "a file of --config, or a function: --example"


def check_inputs(
    where: str, name: str, signature: inspect.Signature, inputs: Mapping[str, Any]
) -> str:
    """Return the argument of a call that tells training from evaluation, or "".

    where: what gave the inputs
    name: of the class

    Raises RedcoError for inputs that the call does not take, or lacks.
    """
    mode = next((key for key in signature.parameters if key in MODES and key not in inputs), "")
    parameters = _Parameters.of(signature, {"self"})
    parameters.check_names(f"{where}: [inputs]", f"a call of {name} takes no", inputs)
    lacking = [key for key in parameters.required if key not in inputs and key != mode]
    if not inputs:
        what = f"the inputs of {name} are not known"
        raise RedcoError(where, what, f"give [inputs] in {_place(where)}")
    if lacking:
        what = f"a call of {name} needs {', '.join(lacking)}"
        todo = f"add {lacking[0]}: its shape and dtype, or what it is in all calls, such as None"
        raise RedcoError(f"{where}: [inputs]", what, todo)
    return mode
