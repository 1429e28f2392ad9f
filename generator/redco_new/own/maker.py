"""What makes a module: a class of Flax, a function or partial that returns one, or a Linen module as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from flax import linen, nnx

from redco_new.errors import RedcoError
from redco_new.render.execute import use_runtime
from redco_plan import error_advice, error_location, error_message
from redco_new.own.find import Reference
from redco_new.own.signature import check_arguments, maker_signature

T = TypeVar("T")


@dataclass(frozen=True)
class Maker:
    """What makes a module.

    make: returns it, anew each time
    module_class: the class that it is of
    takes_rngs: whether nnx.Rngs are given to it
    """

    make: Callable[[], Any]
    module_class: type[linen.Module] | type[nnx.Module]
    takes_rngs: bool


# A constructor reads nothing but what it is given.
MISSING = "give it in [model], where what the constructor is called with is said"
AN_OBJECT = "[model] gives a dict there: make the object by --example FILE:FUNCTION"
A_FILE = "give a path that is there from where you are, or a whole one"


def read_maker(reference: Reference, where: str, arguments: Mapping[str, Any]) -> Maker:
    """Return how a module is made of what `reference` names.

    where: what gave the arguments

    Raises RedcoError for what makes no Flax module, and for arguments that it does not take or lacks.
    """
    value, name = reference.value, reference.name
    is_class, is_module = isinstance(value, type), isinstance(value, linen.Module | nnx.Module)
    if is_class and not issubclass(value, linen.Module | nnx.Module):
        what = f"{name} is not a Flax module, of flax.nnx or flax.linen"
        raise RedcoError("--model", what, "derive the class from nnx.Module or nn.Module")
    if isinstance(value, nnx.Module) or not (is_module or callable(value)):
        what = f"{name} is neither a class of Flax nor a function that makes a module"
        raise RedcoError("--model", what, "point to such a class or function")
    if is_module:
        _check_no_arguments(where, name, arguments)
        return Maker(lambda: value, type(value), False)
    takes_rngs = check_arguments(where, name, maker_signature(value), arguments)

    def make() -> Any:
        return value(**arguments, **({"rngs": nnx.Rngs(0)} if takes_rngs else {}))

    return Maker(make, value if is_class else _class_of(name, make), takes_rngs)


def _check_no_arguments(where: str, name: str, arguments: Mapping[str, Any]) -> None:
    """Raise RedcoError where arguments are given for a module that is made already."""
    if arguments:
        what = f"{name} is a module, which takes no arguments any more"
        raise RedcoError(f"{where}: [model]", what, "leave them out, or point to its class")


def _class_of(name: str, make: Callable[[], Any]) -> type[linen.Module] | type[nnx.Module]:
    """Return the class of the module that a function makes. Raises RedcoError if it makes none."""
    use_runtime()
    from redco_runtime.layout.unsharded import ignore_shardings

    modules: list[Any] = []
    with ignore_shardings():
        call_user_code(name, lambda: nnx.eval_shape(lambda: modules.append(make())), MISSING)
    if not isinstance(modules[0], linen.Module | nnx.Module):
        what = f"{name}() gives {type(modules[0]).__name__}, which is no module"
        raise RedcoError("--model", what, "return one, of flax.nnx, flax.linen or torch.nn")
    return type(modules[0])


def call_user_code(name: str, function: Callable[[], T], missing: str = "") -> T:
    """Return function(), which runs the user's `name`. Raises RedcoError with the user's line.

    missing: what to do where it reads a key that is not there
    """
    try:
        return function()
    except RedcoError:
        raise
    except Exception as error:  # the user's own code may raise anything
        what = f"{name} cannot be traced: {error_message(error).rstrip('.')}"
        todo = missing and _advice(error) or error_advice(error)
        raise RedcoError(error_location(error, name), what, todo) from error


def _advice(error: Exception) -> str:
    """Return what to do about an error of a constructor; "" where it is none of what it is given."""
    if isinstance(error, KeyError):
        return MISSING
    if isinstance(error, AttributeError) and isinstance(error.obj, dict):
        return AN_OBJECT
    return A_FILE if isinstance(error, OSError) else ""
