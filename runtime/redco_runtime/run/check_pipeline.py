"""The functions of pipeline.py that are called by their names, held to the arguments that they get."""

import inspect
from collections.abc import Iterable

from ..base.contracts import Asking, Counted, Drawn, Pipeline, Scored
from ..base.errors import UserError

CONTRACTS = (Pipeline, Scored, Asking, Drawn, Counted)


def check_hooks(pipeline: object, contracts: Iterable[type] = CONTRACTS) -> None:
    """Refuse a pipeline without one of its functions, and one that has not its arguments. Raises UserError.

    contracts: protocols; what the module lacks of one it need not have, and the rest is no hook then.
    """
    for contract in contracts:
        public = {name: x for name, x in vars(contract).items() if not name.startswith("_")}
        hooks = {name: x for name, x in public.items() if inspect.isfunction(x)}
        if contract is Pipeline and (lacks := [x for x in hooks if not hasattr(pipeline, x)]):
            call = f"{lacks[0]}({', '.join([*inspect.signature(hooks[lacks[0]]).parameters][1:])})"
            raise UserError(f"pipeline.py has no {lacks[0]}: training calls {call}: write it there")
        if all(hasattr(pipeline, name) for name in (*hooks, *inspect.get_annotations(contract))):
            for name, hook in hooks.items():
                _check(name, getattr(pipeline, name), list(inspect.signature(hook).parameters)[1:])


def _check(name: str, function: object, arguments: list[str]) -> None:
    call = f"{name}({', '.join(arguments)})"
    todo = "give it these arguments, or another name if it is a helper of yours"
    if not callable(function):
        what = f"training calls {call}, and it is no function"
        raise UserError(f"{name} in pipeline.py: {what}: {todo}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # compiled code: it takes what it takes
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        what = f"training calls {call} by its name"
        raise UserError(f"{name}{signature} in pipeline.py: {what}: {todo}") from None
