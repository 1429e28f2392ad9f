"""Dimension classes of a program: the logical axes of a model, and the role of each.

What the program does with a class decides its role, then what the layout does. No parameter's name
is looked at.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from redco_plan.graph import Dot, Graph, Node, Value
from redco_plan.trace import Program

# role -> the letter that stands for it in shapes, `x_BSD`
LETTERS = {
    **{"batch": "B", "sequence": "S", "embed": "D", "mlp": "F", "heads": "N", "head_dim": "H"},
    **{"vocab": "V", "layers": "L", "positions": "T", "experts": "E", "kv_heads": "K"},
    "window": "W",
}

# The residual stream shares parameters with at least this many other classes: heads, mlp and vocab;
# an inner class with the residual stream and, stacked, one more. Tried: with 2, dims of small models
# without attention become hubs; with 4, those of a convnet and of a plain stack of kernels are none
# (tests/sharding/test_layouts.py, test_collectives.py).
HUB = 3

Whole = tuple[int, str]  # a dim of a parameter, and why it is not to be split


@dataclass(frozen=True)
class Classes:
    """The classes of a program.

    batch: the arrays of the batch.
    parameter_dims: for each parameter, the class of each of its dims.
    sizes: all sizes that the dims of a class have (a split one has its major factor's too).
    order: the place of each class in the order in which the program uses them.
    labels: the role of each class that a parameter has; filled in by label_by_use, then
        label_by_layout.
    loops: classes that a loop runs over.
    windows: classes that the window of a convolution slides over.
    inputs: classes of the dims of the batch, and of their parts.
    whole: classes that are not to be split, and why.
    """

    graph: Graph
    batch: tuple[Value, ...]
    parameter_dims: tuple[tuple[Node, ...], ...]
    sizes: dict[Node, frozenset[int]]
    order: dict[Node, int]
    labels: dict[Node, str]
    loops: frozenset[Node]
    windows: frozenset[Node]
    inputs: frozenset[Node]
    whole: Mapping[Node, str]


def find_classes(graph: Graph, program: Program, whole: Mapping[str, Whole]) -> Classes:
    """Return the classes of a graph, with the roles that the program alone gives away.

    whole: of parameters, by path, a dim that is not to be split.
    """
    n_parameters = len(program.parameters)
    parameter_dims = tuple(
        tuple(graph.find(n) for n in value.dims) for value in graph.values[:n_parameters]
    )
    sizes: dict[Node, set[int]] = defaultdict(set)
    for node in range(len(graph.parents)):
        sizes[graph.find(node)].add(graph.sizes[node])
    batch = tuple(graph.values[n_parameters : len(program.jaxpr.jaxpr.invars)])
    classes = Classes(
        graph=graph,
        batch=batch,
        parameter_dims=parameter_dims,
        sizes={node: frozenset(s) for node, s in sizes.items()},
        order=_order_of_use(graph, n_parameters),
        labels={},
        loops=frozenset(graph.find(n) for n in graph.loop_dims),
        windows=frozenset(graph.find(n) for n in graph.window_dims),
        inputs=_from_batch(graph, {graph.find(n) for value in batch for n in value.dims}),
        whole={
            dims[whole[parameter.path][0]]: whole[parameter.path][1]
            for parameter, dims in zip(program.parameters, parameter_dims, strict=True)
            if parameter.path in whole
        },
    )
    _label_by_use(classes)
    return classes


def _from_batch(graph: Graph, dims: Set[Node]) -> frozenset[Node]:
    """Return the classes `dims` of the batch, and those of the dims made of their elements."""
    inputs = set(dims)
    for new, old in graph.origins:  # in the order of the program: a new dim is an old one later
        if graph.find(old) in inputs and graph.sizes[old] > 1:
            inputs.add(graph.find(new))
    return frozenset(inputs)


def _order_of_use(graph: Graph, n_parameters: int) -> dict[Node, int]:
    """Number the classes in the order in which the program uses them, not that of names."""
    order: dict[Node, int] = {}
    products = (nodes for d in graph.dots for nodes in (d.contracted, d.lhs.dims, d.rhs.dims))
    computed = (value.dims for value in graph.values[n_parameters:] if value.parameter is None)
    parameters = (_by_size(graph, value.dims) for value in graph.values[:n_parameters])
    for nodes in (*products, *computed, *parameters):
        for node in nodes:
            order.setdefault(graph.find(node), len(order))
    return order


def _by_size(graph: Graph, dims: tuple[Node, ...]) -> list[Node]:
    """Sort dims, the largest first: their order in a parameter's memory decides nothing."""
    return sorted(dims, key=lambda node: -graph.sizes[node])


def _label_by_use(classes: Classes) -> None:
    """Fill in the roles that the program alone gives away.

    layers: a loop runs over it.
    window: a convolution's window slides over it.
    heads: a batch dim of a product of two activations, which sums over another.
    kv_heads: repeated, to be as many as the heads.
    experts: a batch dim of a product with a parameter, or what a router chooses.
    vocab: the table that the batch looks up, and the columns that are as many.
    head_dim: contracted by a product of two activations, or together with heads; or taken apart beside heads, as by
        a rotation, of vectors.
    positions: another table, or one that is added to the batch.
    fused: columns of one product that are then taken apart.
    """
    find, dots, inputs = classes.graph.find, classes.graph.dots, classes.inputs
    counts = parameters_per_class(classes)
    weighted = [dot for dot in dots if weights_of(dot)]
    products = [dot for dot in dots if not weights_of(dot)]
    columns = {find(n) for dot in weighted for n in dot.out.dims}
    contracted = {find(n) for dot in weighted for n in dot.contracted}
    heads = {find(n) for dot in products if dot.contracted for n in dot.batch} - inputs
    summed = [set(map(find, dot.contracted)) for dot in weighted]
    tables, apart = _tables(classes), classes.graph.used("part")
    repeated, kernels = classes.graph.used("repeat"), kernel_classes(classes)
    ends = (columns - contracted) & counts.keys() - apart
    longest = {node: max(classes.sizes[node]) for node in counts}
    vocab = _vocab_size(tables, columns, {longest[n] for n in ends}, longest)
    roles = {
        "layers": classes.loops,
        "window": classes.windows,
        "heads": heads,
        "kv_heads": repeated,
        "experts": _experts(classes, weighted) - inputs,
        "vocab": {n for n in tables.keys() | ends if longest[n] == vocab},
        "head_dim": {find(n) for dot in products for n in dot.contracted} - inputs - contracted
        | {n for nodes in summed if nodes & heads for n in nodes}
        | _apart_beside(classes, heads | repeated) - tables.keys() - kernels - inputs,
        "positions": tables.keys() | (apart | inputs) - kernels,
        "fused": apart - contracted,
    }
    for node in counts:
        classes.labels[node] = next((role for role, nodes in roles.items() if node in nodes), "")


def _apart_beside(classes: Classes, heads: Set[Node]) -> set[Node]:
    """Return the classes that are taken apart in an array which has one of `heads` too."""
    find = classes.graph.find
    uses = (use for use in classes.graph.uses if use.kind == "part")
    return {find(n) for use in uses if heads & {*map(find, use.value.dims)} for n in use.nodes}


def label_by_layout(classes: Classes, split: Set[Node]) -> None:
    """Fill in the roles that the layout gives away, `split` the classes that `model` divides.

    embed: not split (unless all are), and in most of the parameters around it.
    mlp: contracted by a product with a parameter.
    inner: anything else.
    """
    find, counts = classes.graph.find, parameters_per_class(classes)
    near = neighbouring_classes(classes)
    rest = [n for n in counts if not classes.labels[n]]
    summed = {find(n) for dot in classes.graph.dots if weights_of(dot) for n in dot.contracted}
    large = {n for n in rest if len(near[n]) >= HUB}
    hubs = {n for n in large - split if all(counts[n] >= counts[m] for m in near[n] - split)}
    hubs = hubs or {n for n in large if all(counts[n] >= counts[m] for m in near[n])}
    for node in rest:
        inner = "mlp" if node in summed - classes.inputs else "inner"
        classes.labels[node] = "embed" if node in hubs else inner


def parameters_per_class(classes: Classes) -> Counter[Node]:
    """Count the parameters that have each class; one that a loop runs over, once a layer."""
    counts: Counter[Node] = Counter()
    for dims in classes.parameter_dims:
        layers = math.prod(max(classes.sizes[n]) for n in dims if n in classes.loops)
        counts.update(dict.fromkeys(dims, layers))
    return counts


def neighbouring_classes(classes: Classes) -> dict[Node, set[Node]]:
    """Return for each class the others that share a parameter with it."""
    near: dict[Node, set[Node]] = defaultdict(set)
    for dims in classes.parameter_dims:
        real = set(dims) - classes.loops - classes.windows
        for node in dims:
            near[node] |= real - {node}
    return near


def _vocab_size(
    tables: dict[Node, bool], columns: Set[Node], ends: Set[int], longest: dict[Node, int]
) -> int:
    """Return the size of the longest table that the batch looks up, or 0.

    If the model has tables that are also `columns`, or as long as the columns at its `ends`, the
    longest of those: it is what the model reads and writes, not a longer table of positions.
    """
    by_batch = [n for n, from_batch in tables.items() if from_batch]
    tied = [n for n in by_batch if n in columns or longest[n] in ends]
    return max((longest[n] for n in tied or by_batch), default=0)


def weights_of(dot: Dot) -> list[int]:
    """Return the indices of the parameters that are operands of a product."""
    return [v.parameter for v in (dot.lhs, dot.rhs) if v.parameter is not None]


def _tables(classes: Classes) -> dict[Node, bool]:
    """Return the classes along which parameters are looked up: whether by the batch."""
    by_batch: dict[Node, bool] = {}
    for use in classes.graph.uses:
        if use.kind == "index":
            for node in map(classes.graph.find, use.nodes):
                by_batch[node] = by_batch.get(node, False) or use.value.data
    own = {node for dims in classes.parameter_dims for node in dims}
    return {node: data for node, data in by_batch.items() if node in own}


def _experts(classes: Classes, weighted: Sequence[Dot]) -> set[Node]:
    """Return the classes along which parameters are kernels of experts.

    A router has a column for each. Its experts are one array of three dims or more: all of them are
    multiplied at once, by the router's columns or by the numbers of those that it chose, or each is taken out of it.
    """
    graph, find = classes.graph, classes.graph.find
    free = [_free_columns(classes, dot) for dot in weighted]
    batches = [{*map(find, dot.batch)} if dot.contracted else set() for dot in weighted]
    # A matrix for each: a number for each channel, as of a recurrence, is no kernel.
    chosen = {n for batch, x in zip(batches, free, strict=True) if x - batch for n in batch}
    routed = {n for columns in free if len(columns) == 1 for n in columns}
    counts = {max(classes.sizes[n]) for n in routed}
    beside = {n for columns in free if len(columns) > 1 for n in columns}
    summed = [{find(n) for n in dot.contracted} for dot in weighted]
    together = {n for nodes in summed if len(nodes) > 1 for n in nodes}
    single = Counter(find(whole) for whole, _, part in graph.runs if graph.sizes[part] == 1)
    stacks = {n for dims in classes.parameter_dims if len(dims) > 2 for n in dims}
    indexed = {n for n in stacks if single[n] >= max(classes.sizes[n]) in counts}
    # A head's features are beside heads in such an array, too, but are summed by products of two activations.
    mixed = {find(n) for dot in graph.dots if not weights_of(dot) for n in dot.contracted}
    alike = stacks & beside & together - mixed
    rows = [
        {n for n in dims if n in alike and max(classes.sizes[n]) in counts}
        for dims in classes.parameter_dims
    ]
    # Of several, what is inside of experts is as many.
    by_number = {n for row in rows if len(row) == 1 for n in row}
    return chosen | routed & beside & together | indexed | by_number


def _free_columns(classes: Classes, dot: Dot) -> set[Node]:
    """Return the classes that a parameter brings into a product, which does not sum over them."""
    find = classes.graph.find
    operands = [v for v in (dot.lhs, dot.rhs) if v.parameter is not None]
    real = {find(n) for v in operands for n in v.dims if classes.graph.sizes[n] > 1}
    return real - {find(n) for n in dot.contracted} - classes.windows


def routers(classes: Classes, experts: Set[Node]) -> set[int]:
    """Return the parameters that choose among `experts`: all that they bring into a product is a column for each."""
    return {
        index
        for dot in classes.graph.dots
        for index in weights_of(dot)
        if (columns := _free_columns(classes, dot)) and columns <= experts
    }


def kernel_classes(classes: Classes) -> set[Node]:
    """Return the classes of parameters that are operands of a product, and those of products.

    Those of parts of what a product makes are among them: the channels of Mamba2's convolution.
    """
    find, dots = classes.graph.find, classes.graph.dots
    indices = {index for dot in dots for index in weights_of(dot)}
    computed = {find(n) for dot in dots for n in dot.out.dims if find(n) not in classes.inputs}
    for new, old in classes.graph.origins:  # in the order of the program
        if find(old) in computed:
            computed.add(find(new))
    return computed - classes.inputs | {
        n for index in indices for n in classes.parameter_dims[index]
    }
