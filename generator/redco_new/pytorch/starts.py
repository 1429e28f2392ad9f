"""What parameters start as: drawn as the class draws them, of its sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from torch import fx, nn

from redco_new.pytorch.draws import UNKNOWN, Draw
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.initializers import fan_in, initializer, is_default
from redco_new.pytorch.leaves import Leaf
from redco_new.pytorch.notes import DRAWN, FROZEN
from redco_new.pytorch.refusal import Unsaid
from redco_new.pytorch.scope import Own, Parts
from redco_new.pytorch.sizes import Number, express

NORMAL = "nnx.initializers.normal(0.02)"  # of a parameter that a class draws in another way


class Starts:
    """Print what the parameters of one class start as."""

    def __init__(self, classes: Parts, own: Own) -> None:
        self._classes, self._own = classes, own

    def _part(self, path: str) -> nn.Module:
        return self._own.part.get_submodule(path)

    def _parts(self, path: str) -> list[nn.Module]:
        """Return a part in each probe and instance."""
        below = lambda own: f"{own_path(own)}.{path}".strip(".")  # noqa: E731
        return [p.traced.module.get_submodule(below(own)) for p, own in self._own.rows]

    def expression(self, path: str, name: str, values: list[Any]) -> str:
        """Return Python for a number, or a tuple of such, by what __init__ has."""
        if isinstance(values[0], tuple | list):
            columns = zip(*values, strict=True)
            items = [self.expression(path, name, list(column)) for column in columns]
            if name == "num_features" and len(items) == 1:
                return items[0]
            if name == "padding" and len(set(items)) == 1:
                return items[0]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if not isinstance(values[0], int | float) or isinstance(values[0], bool):
            return repr(values[0])
        text = self._own.init_text(tuple(values))
        if text is None:
            where = f"{self._own.path}.{path}".strip(".")
            what = f"its {name}, {values[0]} and {values[-1]}, follows from no argument"
            part = next((x for x in reversed(where.split(".")) if x.isidentifier()), "")
            raise Unsaid(where, what, values, f"{part}_{name}".strip("_"))
        return text

    def _own_parameters(
        self, path: str, stored: Mapping[str, tuple[str, Sequence[int]]], read: Collection[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield (name, Python) of the parameters of a layer that another part does not hold: it is written out.

        stored: their names in PyTorch -> here, and the order of dims
        """
        for name, (own, order) in stored.items():
            target = f"{path}.{name}"
            if target in read:
                shapes = _shapes(self._parts(path), name, order)
                yield own, self._drawn(target, shapes, self.expression(target, "shape", shapes))

    def _start(self, path: str, leaf: Leaf, layers: list[Any]) -> tuple[str, str, list[str]]:
        """Return (maker, its import, arguments) of a layer that draws its parameters as the class does."""
        draws = {
            name: self._draws(f"{path}.{name}")
            for name in leaf.stored
            if name in layers[0]._parameters
        }
        draws = {name: rows for name, rows in draws.items() if getattr(layers[0], name) is not None}
        fans = [fan_in(tuple(layer.weight.shape)) for layer in layers] if "weight" in draws else []
        if leaf.drawn and draws and all(is_default(rows, fans) for rows in draws.values()):
            return *leaf.drawn, []
        starts = []
        for name, rows in draws.items():
            own, order = leaf.stored[name]
            shapes = _shapes(layers, name, order)
            text = initializer(rows, shapes, partial(self._number, f"{path}.{name}"))
            if not rows[0] or rows[0].kind == UNKNOWN:
                self._note(f"{path}.{name}")
            usual = {"bias": ".zeros", "scale": ".ones"}.get(own, "-")
            if text and not text.endswith(usual):
                starts.append(f"{own}_init={text}")
        return leaf.maker, leaf.imports, starts

    def _draws(self, name: str) -> list[Draw | None]:
        """Return what fills a parameter, in each probe and instance."""
        rows = self._own.rows
        return [p.instance.draws.get(f"{own_path(own)}.{name}".strip(".")) for p, own in rows]

    def _own_buffers(self, name: str) -> list[fx.Graph | None]:
        """Return the program of a buffer, or of what a parameter begins as, in each probe and instance."""
        names = [f"{own_path(own)}.{name}".strip(".") for _, own in self._own.rows]
        return [p.buffers.get(key) for (p, _), key in zip(self._own.rows, names, strict=True)]

    def _follows(self, name: str) -> bool:
        """Return whether what a parameter begins as is computed of another one, which stands before it."""
        graphs = filter(None, self._own_buffers(name))
        return any(node.op == "get_attr" for graph in graphs for node in graph.nodes)

    def _number(self, parameter: str, values: list[float]) -> str:
        """Return Python for a number of an initializer; "" where no argument says it, which the user is told."""
        text = express(Number(tuple(values)), self._own.init_atoms)
        if text is None:
            self._note(parameter)
        return text or ""

    def _note(self, parameter: str) -> None:
        """Tell the user that a parameter is not drawn as the class does."""
        self._classes.note(DRAWN.format(name=type(self._own.part).__name__, what=parameter))

    def _drawn(self, name: str, shapes: list[tuple[int, ...]], shape: str) -> str:
        """Return Python of a parameter, which is drawn as the class does. shapes: as model.py has them, `shape` as Python"""
        start = initializer(self._draws(name), shapes, partial(self._number, name))
        is_buffer = name in dict(self._part("").named_buffers())
        frozen = is_buffer or not self._part("").get_parameter(name).requires_grad
        kind = "Variable" if frozen else "Param"
        if first := self._first(name):
            return f"nnx.{kind}(self.{first}[...])"
        if start.endswith((".zeros", ".ones")):
            return f"nnx.{kind}(jnp.{start.rpartition('.')[2]}({shape}))"
        if frozen and not is_buffer:
            cls = type(self._own.part).__name__
            self._classes.note(FROZEN.format(name=f"{name} of {cls}"))
        elif not start:
            self._note(name)
        return f"nnx.{kind}({start or NORMAL}(rngs.params(), {shape}))"

    def _first(self, name: str) -> str:
        """Return what stands before it in its part, of which a parameter or a buffer is a copy; "" for another one."""
        if "." in name or not (draw := self._draws(name)[0]) or draw.first is None:
            return ""
        part = self._part("")
        names = [*part._parameters, *part._buffers]
        draws = ((other, self._draws(other)[0]) for other in names[: names.index(name)])
        return next((other for other, x in draws if x and x.first == draw.first), "")


def _shapes(layers: Sequence[Any], name: str, order: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the shapes of a parameter of some layers as Flax has it. order: of its dims there"""
    shapes = [tuple(getattr(layer, name).shape) for layer in layers]
    return [tuple(s[i] for i in order or range(len(s))) for s in shapes]
