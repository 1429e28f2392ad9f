"""Run a class that names shardings of its own as on one device: the layout is that of sharding.py."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import unwrap
from typing import Any

import jax
from flax import linen, nnx
from jax._src.sharding_impls import canonicalize_sharding
from jax.sharding import AbstractMesh

NO_MESH = AbstractMesh((), ())
# What names a sharding while a model runs, and what is done meanwhile: nothing. All arguments
# `out_sharding` of JAX go through canonicalize_sharding, which has no public name, and a cache.
STAND_INS: dict[Any, Any] = {
    jax.lax.with_sharding_constraint: lambda x, shardings: x,
    jax.sharding.reshard: lambda xs, out_shardings: xs,
    unwrap(canonicalize_sharding): lambda sharding, api_name, check_mesh_consistency: None,
    jax.set_mesh.__init__: lambda self, mesh: None,
    jax.set_mesh.__enter__: lambda self: None,
    jax.set_mesh.__exit__: lambda self, exc_type, exc_value, traceback: None,
}
METADATA = ("out_sharding", "sharding_rules", "mesh")  # of a variable, about its sharding


def unsharded(model: type[nnx.Module]) -> type[nnx.Module]:
    """Return `model`, made and called with no mesh in sight, and with variables without shardings."""
    for name in ("__init__", "__call__"):
        setattr(model, name, _run_unsharded(getattr(model, name)))
    return model


def _run_unsharded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a module that ignores shardings, and leaves none on the variables."""

    @wraps(method)
    def run(self: nnx.Module, *args: Any, **kwargs: Any) -> Any:
        with ignore_shardings():
            result = method(self, *args, **kwargs)
        forget_shardings(self)
        return result

    return run


@contextmanager
def ignore_shardings() -> Iterator[None]:
    """Make what names a sharding do nothing, with no mesh in sight.

    The code of the functions is replaced, since a class may have imported them by any name.
    """
    before = {function: function.__code__ for function in STAND_INS}
    try:
        for function, stand_in in STAND_INS.items():
            function.__code__ = stand_in.__code__
        with nnx.use_eager_sharding(False), jax.sharding.use_abstract_mesh(NO_MESH):
            yield
    finally:
        for function, code in before.items():
            function.__code__ = code


def forget_shardings(model: nnx.Module) -> None:
    """Remove from the variables of a model what they say about their sharding."""
    for _, variable in nnx.iter_graph(model):
        if isinstance(variable, nnx.Variable):
            metadata = variable.get_metadata()
            boxed = issubclass(metadata.get("linen_meta_type", object), linen.Partitioned)
            about = {*METADATA, "linen_meta_type"} if boxed else {*METADATA}
            if about & metadata.keys():
                variable.set_metadata({k: v for k, v in metadata.items() if k not in about})
