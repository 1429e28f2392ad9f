"""Sizes in a body: the dims of its inputs have names of a letter, and numbers are made of these and of the class's."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence

import torch

from redco_new.pytorch.dtypes import COMPUTE
from redco_new.pytorch.merge import Node
from redco_new.pytorch.refusal import Unsaid
from redco_new.pytorch.setting import Setting
from redco_new.pytorch.sizes import Atom, Number, exactly, express
from redco_new.pytorch.variables import Rename, unpack_shape

DIM = re.compile(r"_dim_(\d+)_(\d+)")
# What dims are called by their places, where none is B.
LETTERS = {2: "BS", 3: "BSD", 4: "BCHW", 5: "BCTHW"}
OTHERS = "TUVWXYZKLM"  # where an earlier one is called so


def number_text(number: Number, atoms: Sequence[Atom], outer: Sequence[Atom], dtype: str) -> str:
    """Return Python of a number. Raises RedcoError where no size of the class makes it.

    outer: what makes it where `atoms` do not
    dtype: Python of that of the computation
    """
    text = exactly(number, atoms) or exactly(number, outer)  # B is made of others by chance
    text = text or express(number, atoms) or express(number, outer)
    if text is None:
        what = f"a number, {number.values[0]} and {number.values[-1]}, follows from no size of the class"
        raise Unsaid("--model", what, number.values)
    if text in ("inf", "-inf"):
        return text.replace("inf", "jnp.inf")
    lowest = {
        torch.finfo(key).min: name
        for key, name in ((torch.float32, "jnp.float32"), (COMPUTE, dtype))
    }
    name = lowest.get(number.values[0])
    return f"jnp.finfo({name}).min" if name else text


def unpack_dims(
    statements: Sequence[ast.stmt],
    inputs: Sequence[Node],
    names: Sequence[str],
    batch: tuple[int, ...],
    reserved: Collection[str],
) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return statements that name the dims of inputs which are read, `B, S, _ = x.shape`, and `statements` by these names."""
    text = "\n".join(map(ast.unparse, map(ast.fix_missing_locations, statements)))
    used = sorted({(int(i), int(d)) for i, d in DIM.findall(text)})
    letters: dict[str, str] = {}
    unpacked: list[ast.stmt] = []
    for i in sorted({i for i, _ in used}):
        dims = inputs[i].dims or ()
        row = ["_"] * len(dims)
        for d in (d for j, d in used if j == i):
            row[d] = letter(d, dims, batch, {*letters.values(), *reserved})
            letters[f"_dim_{i}_{d}"] = row[d]
        unpacked.append(unpack_shape(names[i], row))
    renamed = Rename(letters)
    return unpacked, [renamed.visit(statement) for statement in statements]


def input_dims(settings: Sequence[Setting]) -> list[dict[str, int]]:
    """Return the dims of the inputs of a class in each setting, by their letters.

    A dim that is another one's each time has its letter; one that is not has its own: targets are T long where sources are S.
    """
    letters: dict[tuple[int, ...], str] = {}
    for name in settings[0].inputs:
        shapes = [(setting.batch, *setting.inputs[name].shape) for setting in settings]
        for wanted, sizes in zip(
            LETTERS.get(len(shapes[0]), ""), zip(*shapes, strict=True), strict=False
        ):
            if sizes not in letters:
                free = (x for x in (wanted, *OTHERS) if x not in letters.values())
                letters[sizes] = next(free)
    return [{x: sizes[i] for sizes, x in letters.items()} for i in range(len(settings))]


def letter(
    d: int, dims: Sequence[Number], batch: tuple[int, ...], reserved: Collection[str]
) -> str:
    """Return a name for a dim of an array that none of `reserved` is."""
    wanted = "B" if dims[d].values == batch else LETTERS.get(len(dims), "BCDEFGHI")[d]
    wanted = wanted if wanted != "B" or dims[d].values == batch else "N"
    return next(x for x in (wanted, *OTHERS) if x not in reserved)
