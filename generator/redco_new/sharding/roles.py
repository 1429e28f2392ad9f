"""The role of each class of a model's parameters: what the program does with it decides."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Set

from redco_new.sharding.classes import Classes
from redco_new.sharding.dims import Dot, Node

# The residual class shares parameters with at least this many others (heads, mlp, vocab).
HUB = 3


def label(classes: Classes) -> None:
    """Fill in the roles that the program alone gives away. No parameter's name is looked at.

    layers: a loop runs over it.  window: a convolution's window slides over it.
    heads: a batch dim of a product of two activations, and head_dim: contracted in one, or
    together with heads.  kv_heads: repeated, to be as many as the heads.  experts: a batch dim of a product with a parameter.
    vocab: the table that the batch looks up, and what is made in its size; positions: another
    table, or one that is added to the batch.  fused: made by one product, then taken apart.
    """
    find, dots, inputs = classes.graph.find, classes.graph.dots, classes.inputs
    counts = count(classes)
    weighted = [dot for dot in dots if weights_of(dot)]
    products = [dot for dot in dots if not weights_of(dot)]
    made = {find(n) for dot in weighted for n in dot.out.dims}
    contracted = {find(n) for dot in weighted for n in dot.contracted}
    heads = {find(n) for dot in products for n in dot.batch} - inputs
    summed = [set(map(find, dot.contracted)) for dot in weighted]
    looked_up, taken_apart = tables(classes), classes.graph.used("part")
    ends = (made - contracted) & counts.keys() - taken_apart
    longest = {node: max(classes.sizes[node]) for node in counts}
    vocab = vocab_size(looked_up, made, {longest[n] for n in ends}, longest)
    roles = {
        "layers": classes.scanned,
        "window": classes.windows,
        "heads": heads,
        "kv_heads": classes.graph.used("repeat"),
        "experts": {find(n) for dot in weighted for n in dot.batch} - inputs,
        "vocab": {n for n in looked_up.keys() | ends if longest[n] == vocab},
        "head_dim": {find(n) for dot in products for n in dot.contracted} - inputs - contracted
        | {n for nodes in summed if nodes & heads for n in nodes},
        "positions": looked_up.keys() | (taken_apart | inputs) - kernels(classes),
        "fused": taken_apart - contracted,
    }
    for node in counts:
        classes.labels[node] = next((role for role, nodes in roles.items() if node in nodes), "")


def label_rest(classes: Classes, split: Set[Node]) -> None:
    """Fill in the roles that the layout gives away.

    embed: not split (unless all are), and in most of the parameters around it.
    mlp: contracted by a product with a parameter.  inner: anything else.
    """
    find, counts = classes.graph.find, count(classes)
    near, rest = neighbours(classes), [n for n in counts if not classes.labels[n]]
    summed = {find(n) for dot in classes.graph.dots if weights_of(dot) for n in dot.contracted}
    large = {n for n in rest if len(near[n]) >= HUB}
    hubs = {n for n in large - split if all(counts[n] >= counts[m] for m in near[n] - split)}
    hubs = hubs or {n for n in large if all(counts[n] >= counts[m] for m in near[n])}
    for node in rest:
        inner = "mlp" if node in summed - classes.inputs else "inner"
        classes.labels[node] = "embed" if node in hubs else inner


def count(classes: Classes) -> Counter[Node]:
    """How many parameters have each class; one that a loop runs over counts for each layer."""
    counts: Counter[Node] = Counter()
    for dims in classes.parameter_dims:
        layers = math.prod(max(classes.sizes[n]) for n in dims if n in classes.scanned)
        counts.update(dict.fromkeys(dims, layers))
    return counts


def vocab_size(
    looked_up: dict[Node, bool], made: Set[Node], ends: Set[int], longest: dict[Node, int]
) -> int:
    """The longest table that the batch looks up; if there are any, of those also made at the end."""
    by_batch = [n for n, ours in looked_up.items() if ours]
    tied = [n for n in by_batch if n in made or longest[n] in ends]
    return max((longest[n] for n in tied or by_batch), default=0)


def weights_of(dot: Dot) -> list[int]:
    """Indices of the parameters that are operands of a product."""
    return [v.parameter for v in (dot.lhs, dot.rhs) if v.parameter is not None]


def tables(classes: Classes) -> dict[Node, bool]:
    """Classes of parameters whose rows are looked up: whether by the batch, or by constants."""
    found: dict[Node, bool] = {}
    for use in classes.graph.uses:
        if use.kind == "index":
            for node in map(classes.graph.find, use.nodes):
                found[node] = found.get(node, False) or use.value.data
    ours = {node for dims in classes.parameter_dims for node in dims}
    return {node: by_batch for node, by_batch in found.items() if node in ours}


def kernels(classes: Classes) -> set[Node]:
    """Classes of the parameters that a product has as an operand, and classes that one makes."""
    find, dots = classes.graph.find, classes.graph.dots
    indices = {index for dot in dots for index in weights_of(dot)}
    made = {find(n) for dot in dots for n in dot.out.dims if find(n) not in classes.inputs}
    return made | {n for index in indices for n in classes.parameter_dims[index]}


def neighbours(classes: Classes) -> dict[Node, set[Node]]:
    """For each class, the others that share a parameter with it."""
    near: dict[Node, set[Node]] = defaultdict(set)
    for dims in classes.parameter_dims:
        real = set(dims) - classes.scanned - classes.windows
        for node in dims:
            near[node] |= real - {node}
    return near
