"""Classes and the axes that divide them -> the layout of each array that a model computes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jax.extend.core import JaxprEqn
from jax.sharding import PartitionSpec as P

from redco_plan.classes import Classes
from redco_plan.placement import CONTEXT, Axes, axes_of_entry, fsdp_axes, inner_axes, partition_spec
from redco_plan.graph import Body, Node, Value
from redco_plan.positions import Positions
from redco_plan.tables import VIEWS, rows_of_parameters

PRODUCTS = {"dot_general", "ragged_dot_general", "conv_general_dilated"}
# They draw random numbers.
RANDOM = {"random_bits", "random_gamma", "threefry2x32", "rng_bit_generator", "rng_uniform"}
# They need the elements of a dim in their order: a dim of positions that one of them reads is not
# split by sequence parallelism.
ORDERED = {
    *("conv_general_dilated", "reduce_window_sum", "reduce_window_max"),
    *("cumsum", "sort", "fft"),
}


@dataclass(frozen=True)
class Rows:
    """Rows that were looked up in tables that fsdp splits, and of nothing else.

    value: as the model has named it.
    layout: as the tables lie, so that rows change devices and no table does.
    tables: parameters.
    """

    value: Value
    layout: P
    tables: frozenset[int]


@dataclass(frozen=True)
class Layouts:
    """The layouts of the values of one program.

    mesh: axis -> size.
    axes: of each class that is split.
    batch_axes: of the rows of the batch.
    sequence: whether `model` splits the residual stream by position (sequence parallelism,
        Korthikanti et al. 2022, section 4.2.2).
    ring: whether `context` splits positions where they mix, too.
    """

    classes: Classes
    mesh: dict[str, int]
    axes: Mapping[Node, Axes]
    batch_axes: Axes
    sequence: bool
    ring: bool = False

    def of(self, value: Value, gathered: bool = False) -> P:
        """Return the layout of a value: None where it is whole, UNCONSTRAINED where it is odd.

        An axis splits one dim: that of a parameter's class, or else the rows, or the positions.
        What experts make lies by expert; what is said of them (a router's choice), by row.

        gathered: whether all positions are on every device: by `context` each has them of its own heads.
        """
        nodes, local = self.nodes(value), self.is_expert(value)
        wanted = [self.axes.get(n, ()) if local or n not in self.experts else () for n in nodes]
        later = [self.batch_axes if node in self.rows else () for node in nodes]
        if not gathered and (i := self.position(value)) is not None:
            later[i] = self.model
        if CONTEXT in self.mesh:
            mixing = value.key in self.positions.sums and not self.ring
            wanted, later = self._over_context(nodes, wanted, later, mixing)
        used = {axis for axes in wanted for axis in axes}
        for i, axes in enumerate(later):
            if not wanted[i]:
                wanted[i] = tuple(axis for axis in axes if axis not in used)
                used |= {*wanted[i]}
        sizes = (self.classes.graph.sizes[node] for node in value.dims)
        fits = [size % self._parts(axes) == 0 for size, axes in zip(sizes, wanted, strict=True)]
        entries = zip(partition_spec(wanted), fits, strict=True)
        return P(*(entry if fit else P.UNCONSTRAINED for entry, fit in entries))

    def _over_context(
        self, nodes: Sequence[Node], wanted: list[Axes], later: list[Axes], mixing: bool
    ) -> tuple[list[Axes], list[Axes]]:
        """Return the axes of each dim, positions split by `context` too, or what `model` splits where they mix."""
        for i, node in enumerate(nodes):
            if mixing and {*wanted[i]} & {*self.model}:
                wanted[i] = (*wanted[i], CONTEXT)
            elif not mixing and node in self._positions:
                later[i] = (*later[i], CONTEXT)
        return wanted, later

    def by_name(self, partitions: Sequence[P]) -> dict[str, P]:
        """Return the layout of each array that the model names with checkpoint_name.

        That is jax.ad_checkpoint.checkpoint_name. A name of arrays some of which a product gathers
        is of what is split; one of arrays with several layouts is left out. One of rows that were just looked up, and of nothing else, lies as their tables do.

        partitions: the layouts of the parameters.
        """
        named: dict[str, list[Value]] = defaultdict(list)
        for body, eqn, _ in self.classes.graph.bodies[0].equations():
            if eqn.primitive.name == "name":
                named[eqn.params["name"]].append(body.values[eqn.outvars[0]])
        specs = {
            name: {self.of(value, all(v.key in self._gathered for v in values)) for value in values}
            for name, values in named.items()
        }
        rows = self.rows_of_tables(partitions)
        specs |= {name: {one.layout for one in own} for name, own in rows.items()}
        return {name: layouts.pop() for name, layouts in specs.items() if len(layouts) == 1}

    def rows_of_tables(self, partitions: Sequence[P]) -> dict[str, list[Rows]]:
        """Return the rows that the model names, by their name.

        partitions: the layouts of the parameters.
        """
        rows: dict[str, list[Rows]] = defaultdict(list)
        others: set[str] = set()
        tables = rows_of_parameters(self.classes)
        for body, eqn, _ in self.classes.graph.bodies[0].equations():
            if eqn.primitive.name == "name":
                name, value = eqn.params["name"], body.values[eqn.outvars[0]]
                of = tables.get(id(body.value(eqn.invars[0])), frozenset())
                split = {n for i in of for n in self._over_fsdp(i, partitions[i])}
                axes = {
                    axis for i in of for entry in partitions[i] for axis in axes_of_entry(entry)
                }
                if split:
                    rows[name].append(Rows(value, self._as_table(value, split, axes), of))
                else:
                    others.add(name)
        return {name: named for name, named in rows.items() if name not in others}

    def _over_fsdp(self, index: int, partition: P) -> set[Node]:
        """Return the classes of a parameter that fsdp splits in it."""
        pairs = zip(self.classes.parameter_dims[index], partition, strict=True)
        over = {*fsdp_axes(self.mesh)}
        return {self.classes.graph.find(n) for n, axes in pairs if over & {*axes_of_entry(axes)}}

    def _as_table(self, value: Value, split: set[Node], axes: set[str]) -> P:
        """Return the layout of rows where every device looks up what it has of a table, for all.

        They then change devices, as their gradients do, and the table stays: it has more rows than
        a device has tokens. No axis that splits words of the table splits tokens.

        split: the classes that fsdp splits in the table.  axes: all that split it.
        """
        spec = self.of(value)
        if P.UNCONSTRAINED in spec:
            return spec
        pairs, over = zip(self.nodes(value), spec, strict=True), fsdp_axes(self.mesh)
        entries = [
            (
                (*(axis for axis in axes_of_entry(entry) if axis not in over), *over)
                if node in split
                else tuple(axis for axis in axes_of_entry(entry) if axis not in axes)
            )
            for node, entry in pairs
        ]
        return partition_spec(entries)

    def multiplied(self, body: Body, eqn: JaxprEqn) -> dict[int, Value]:
        """Return the operands that a product multiplies with a parameter; {} for another equation."""
        if eqn.primitive.name not in PRODUCTS:
            return {}
        operands = [body.value(atom) for atom in eqn.invars[:2]]
        if all(value is None or value.parameter is None for value in operands):
            return {}
        return {i: value for i, value in enumerate(operands) if value is not None and value.data}

    def gathers(self, body: Body, eqn: JaxprEqn) -> frozenset[int]:
        """Return the operands of a product of which a parameter makes columns of a split class."""
        operands = self.multiplied(body, eqn)
        if not operands or not self.is_split(body.values[eqn.outvars[0]]):
            return frozenset()
        return frozenset(i for i, value in operands.items() if not self.is_split(value))

    def position(self, value: Value) -> int | None:
        """Return the dim of a value that is its positions, if they are to be split."""
        nodes = self.nodes(value)
        residual = any(self.classes.labels.get(node) == "embed" for node in nodes)
        if not self.sequence or not residual or self.is_split(value):
            return None
        return next((i for i, node in enumerate(nodes) if node in self._positions), None)

    def is_split(self, value: Value) -> bool:
        """Return whether an axis of `model` splits a class of a value."""
        return any(axis in self.model for n in self.nodes(value) for axis in self.axes.get(n, ()))

    def nodes(self, value: Value) -> tuple[Node, ...]:
        """Return the classes of the dims of a value."""
        return tuple(map(self.classes.graph.find, value.dims))

    @cached_property
    def model(self) -> Axes:
        """The axis `model`, or those that it is taken apart into."""
        return inner_axes(self.mesh)

    @cached_property
    def experts(self) -> frozenset[Node]:
        """Classes that one of the axes of the rows splits."""
        return frozenset(n for n, axes in self.axes.items() if {*axes} & {*self.batch_axes})

    @cached_property
    def rows(self) -> frozenset[Node]:
        """Classes of the first dims of the batch's arrays."""
        find, batch = self.classes.graph.find, self.classes.batch
        return frozenset(find(value.dims[0]) for value in batch if value.dims)

    @cached_property
    def rows_alone(self) -> bool:
        """Return whether no row of the batch depends on another: nothing but their place tells them.

        False where rows are summed, compared, sorted or chosen among, and where random numbers are
        drawn, which a part of the rows would draw otherwise.
        """
        graph, rows = self.classes.graph, self.rows
        meeting = [use.nodes for use in graph.uses] + [dot.contracted for dot in graph.dots]
        if any(graph.find(node) in rows for nodes in meeting for node in nodes):
            return False
        if rows & self.classes.loops or any(
            sum(node in rows for node in self.nodes(value)) > 1 for value in graph.values
        ):
            return False
        names = {eqn.primitive.name for _, eqn, _ in graph.bodies[0].equations()}
        return names.isdisjoint(RANDOM)

    @cached_property
    def _gathered(self) -> frozenset[int]:
        """Keys of the values that are of no use but to products that gather them."""
        uses: dict[int, set[bool]] = defaultdict(set)
        for body, eqn, inner in self.classes.graph.bodies[0].equations():
            if eqn.primitive.name not in VIEWS and not inner:
                gathers = self.gathers(body, eqn)
                for i, atom in enumerate(eqn.invars):
                    if (value := body.value(atom)) is not None:
                        uses[value.key].add(i in gathers)
        return frozenset(key for key, kinds in uses.items() if kinds == {True})

    @cached_property
    def positions(self) -> Positions:
        """Where positions are, and where they mix."""
        return Positions(self.classes.graph, self._positions)

    @cached_property
    def _positions(self) -> frozenset[Node]:
        """The other classes of the batch, but those that a loop or a window needs in order."""
        positions = self.classes.inputs - self.rows - self.classes.loops
        for body, eqn, _ in self.classes.graph.bodies[0].equations():
            if eqn.primitive.name in ORDERED:
                value = body.value(eqn.invars[0])
                if value is not None and len(value.dims) > 2 and not self.is_split(value):
                    positions -= {*self.nodes(value)}
        return positions

    def is_expert(self, value: Value) -> bool:
        """Return whether a value is what experts make or take: it has other features than which."""
        nodes = {*self.nodes(value)}
        features = {n for n in nodes if self.classes.labels.get(n, "positions") != "positions"}
        return bool(nodes & self.experts) and bool(features - self.experts)

    def _parts(self, axes: Axes) -> int:
        """Return the number of parts of a dim that `axes` split."""
        return math.prod(self.mesh[axis] for axis in axes)
