"""What an adapted model was at first, beside it: of the same arrays, and of an adapter that stays."""

from typing import TypeVar

from flax import nnx

Model = TypeVar("Model", bound=nnx.Module)


def with_fixed_adapter(model: Model) -> Model:
    """Return what computes as `model` does, whatever becomes of its adapter: it has a frozen one of its own.

    All other arrays are those of `model`, and no second ones. Those of its own start as the adapter does.
    """
    other = nnx.clone(model)
    modules = zip(nnx.iter_modules(other), nnx.iter_modules(model), strict=True)
    for (_, own), (_, shared) in modules:
        for name, leaf in [*vars(shared).items()]:
            if isinstance(leaf, nnx.LoRAParam):
                setattr(own, name, nnx.Param(leaf[...]))
            elif isinstance(leaf, nnx.Variable):
                setattr(own, name, leaf)
    return other
