"""How a class of the user's own is called: what each argument of its call is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from redco_new.errors import RedcoError
from redco_new.request.own_class import BATCH, DTYPES, Constant, Input

# What NumPy makes of numbers unless told otherwise, which JAX does not compute in.
NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint8"}
Leaf = Input | Constant
Path = tuple[str | int, ...]  # of a leaf: the argument, then keys and indices


@dataclass(frozen=True)
class Call:
    """A call of a class.

    arguments: by name, each an Input, a Constant, or a dict, list or tuple of such
    method: that is called
    """

    arguments: Mapping[str, Any]
    method: str = "__call__"

    @property
    def inputs(self) -> dict[str, Input]:
        """Arrays with B, by name: batch["ids"] is `batch_ids`."""
        return {join_path(path): x for path, x in leaves(self.arguments) if isinstance(x, Input)}

    def fill(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with these arrays, input -> array, in the place of inputs."""

        def value(path: Path, leaf: Leaf) -> Any:
            return arrays[join_path(path)] if isinstance(leaf, Input) else constant_value(leaf)

        return {name: _map(value, x, (name,)) for name, x in self.arguments.items()}

    def print(self, leaf_source: Callable[[Path, Leaf], str]) -> list[str]:
        """Return the arguments as Python, `name=value`."""
        return [f"{name}={_print(leaf_source, x, (name,))}" for name, x in self.arguments.items()]


def constant_value(constant: Constant) -> Any:
    """Return the value of a constant, a numpy array if it is one."""
    if constant.shape is None:
        return constant.value
    return np.full(constant.shape, constant.value, constant.dtype)


def join_path(path: Path) -> str:
    """Return the name of the input at a path."""
    return "_".join(map(str, path))


def subscripts(path: Path) -> str:
    """Return Python that takes a leaf out of a dict of arguments: ["batch"]["ids"]."""
    return "".join(f"[{key!r}]" for key in path)


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """Yield (path, leaf) of a tree of dicts, lists and tuples."""
    if isinstance(tree, Mapping):
        for key, x in tree.items():
            yield from leaves(x, (*path, key))
    elif type(tree) in (list, tuple):
        for index, x in enumerate(tree):
            yield from leaves(x, (*path, index))
    else:
        yield path, tree


def _map(function: Callable[[Path, Leaf], Any], tree: Any, path: Path) -> Any:
    """Return a tree of the results of function(path, leaf)."""
    if isinstance(tree, Mapping):
        return {key: _map(function, x, (*path, key)) for key, x in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_map(function, x, (*path, i)) for i, x in enumerate(tree))
    return function(path, tree)


def _print(leaf_source: Callable[[Path, Leaf], str], tree: Any, path: Path) -> str:
    """Return a tree as Python."""
    if isinstance(tree, Mapping):
        pairs = (f"{k!r}: {_print(leaf_source, x, (*path, k))}" for k, x in tree.items())
        return f"{{{', '.join(pairs)}}}"
    if type(tree) in (list, tuple):
        items = [_print(leaf_source, x, (*path, i)) for i, x in enumerate(tree)]
        if isinstance(tree, list):
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return leaf_source(path, tree)


def read_arguments(
    where: str, values: Mapping[str, Any], wrapper: Callable[[], str]
) -> dict[str, Any]:
    """Return the arguments of a call as trees of Inputs and Constants, from those of an example.

    B is the first dim that most arrays have, the smallest of several; what has another is the same
    for all examples.

    where: what gave them
    wrapper: says what can be called where the class cannot

    Raises RedcoError for what is neither an array nor plain data.
    """
    values = {name: _map(lambda _, x: _as_numpy(x), x, (name,)) for name, x in values.items()}
    shapes = [tuple(getattr(x, "shape", ())) for _, x in leaves(values)]
    firsts = [shape[0] for shape in shapes if shape]
    rows = max(sorted(set(firsts)), key=firsts.count, default=0)

    def read(path: Path, x: Any) -> Leaf:
        return _read_leaf(f"{where}: {join_path(path)}", x, rows, wrapper)

    arguments = {name: _map(read, x, (name,)) for name, x in values.items()}
    check_names(where, arguments)
    return arguments


def read_plain(where: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a call as [inputs] has them: shapes, and arrays of one number.

    where: what gave them. Raises RedcoError for another array that is the same for all examples.
    """

    def read(path: Path, leaf: Leaf) -> Leaf:
        if isinstance(leaf, Input):
            return replace(leaf, value=None)
        if not isinstance(leaf.value, np.ndarray):
            return leaf
        numbers = np.unique(leaf.value)
        if numbers.size != 1:
            what = f"{join_path(path)} is the same array for all examples, of several numbers"
            raise RedcoError(where, what, f"make it in the class, or give it a first dim {BATCH}")
        return Constant(numbers[0].item(), leaf.value.shape, str(leaf.value.dtype))

    return {name: _map(read, x, (name,)) for name, x in arguments.items()}


def _as_numpy(x: Any) -> Any:
    """Return a tensor of PyTorch as NumPy has it, in what JAX computes in; anything else as it is."""
    if type(x).__module__.partition(".")[0] != "torch":
        return x
    array = x.detach().cpu().numpy()
    return array.astype(NARROWER.get(str(array.dtype), array.dtype))


def check_names(where: str, arguments: Mapping[str, Any]) -> None:
    """Raise RedcoError where two inputs of nested arguments come to the same name, or to none."""
    names = [join_path(path) for path, x in leaves(arguments) if isinstance(x, Input)]
    for name in names:
        if names.count(name) > 1 or not name.isidentifier():
            what = f"an input is called {name!r}, which is no name for it, or that of another"
            raise RedcoError(where, what, "call its key something else")


def _read_leaf(where: str, x: Any, rows: int, wrapper: Callable[[], str]) -> Leaf:
    """Return an array of `rows` examples as an Input, what is the same for all as a Constant."""
    if x is None or isinstance(x, bool | int | float | str):
        return Constant(x.item() if isinstance(x, np.generic) else x)
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        what = (
            f"a {type(x).__name__} is no array, number or text, nor a dict, list or tuple of them"
        )
        raise RedcoError(where, what, wrapper())
    dtype, of_rows = str(x.dtype), x.shape and x.shape[0] == rows
    if dtype.startswith("key<"):
        raise RedcoError(where, "a random key would be the same in all steps", wrapper())
    if of_rows and dtype not in DTYPES:
        what = f"an array of {dtype}"
        todo = f"give {NARROWER[dtype]}" if dtype in NARROWER else f"give {', '.join(DTYPES)}"
        raise RedcoError(where, what, todo)
    is_array = isinstance(x, np.ndarray | np.generic | jax.Array)
    if of_rows:
        return Input(tuple(x.shape[1:]), dtype, value=np.asarray(x[0]) if is_array else None)
    if not is_array:
        what = f"the shape {x.shape} has no first dim {BATCH}, of {rows} examples"
        raise RedcoError(where, what, "give a numpy array: it is the same for all examples")
    return Constant(np.asarray(x), None)
