"""What a decoder of texts needs of its config: the size of a cache, and the longest text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from redco_new.pytorch.classes import Classes
from redco_new.pytorch.dtypes import COMPUTE
from redco_new.pytorch.kind_methods import KindMethods
from redco_new.pytorch.layers import Count
from redco_new.pytorch.printed import Field
from redco_new.pytorch.sizes import Atom, Number, express
from redco_new.pytorch.transformers_classes import first_position
from redco_new.pytorch.texts import TextMethods, attention_calls, attention_dtypes, attention_heads

# What configs of transformers call the longest text that positions are there for.
Methods = TypeVar("Methods", TextMethods, KindMethods)
LONGEST = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


def with_length(methods: Methods, classes: Classes, fields: Sequence[Field]) -> Methods:
    """Return methods with the field of the config that says how long a text may be, if there is one."""
    names = {f.name for f in fields}
    longest = next((name for name in LONGEST if name in names), "")
    return replace(methods, longest=longest, first=first_position(classes.module))


def with_cache(methods: TextMethods, classes: Classes, fields: Sequence[Field]) -> TextMethods:
    """Return the methods of a decoder with the cache that its attention needs, where all of it needs the same."""
    methods = with_length(methods, classes, fields)
    counts = {path: Count(str(len(classes.part(path)._modules))) for path in classes.stacked}
    calls = attention_calls(classes.graphs, classes.stacked, counts | {**classes.lengths})
    heads = [attention_heads(probe.traced.graphs) for probe in classes.probes]
    if not methods.attends or not calls or any(len(one) != 1 for one in heads):
        return methods
    rows = [one.pop() for one in heads]
    probes = classes.probes
    atoms = [
        Atom(f"c.{f.name}", tuple(p.sizes[f"config.{f.name}"] for p in probes))
        for f in fields
        if f"config.{f.name}" in probes[0].sizes
    ]
    k = attention_dtypes(probes[0].traced.graphs)
    dtype = "c.dtype" if k == {COMPUTE} else "jnp.float32"
    texts = []
    for which in (0, 1):
        numbers = [Number(tuple(row[which][i] for row in rows)) for i in (0, 1)]
        sizes = [express(number, atoms) for number in numbers]
        if None in sizes:
            return methods
        texts.append(f"({sizes[0]}, {sizes[1]})")
    return replace(methods, cache=f"{calls}, batch, length, {texts[0]}, {texts[1]}, {dtype}")
