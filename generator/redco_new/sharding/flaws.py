"""What a user must know of a layout before trusting it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from redco_new.sharding.axes import inner_axes
from redco_new.sharding.classes import Classes
from redco_new.sharding.dims import Node


def flaws(
    classes: Classes, mesh: Mapping[str, int], axes: Mapping[Node, tuple[str, ...]]
) -> Iterator[str]:
    """A line for each primitive without a rule, and for each convolution that XLA gets wrong.

    XLA (jaxlib 0.10.2, CPU; tests/sharding/test_random.py) multiplies the gradient of a grouped
    convolution's kernel by the size of each axis that splits neither its rows nor its channels.
    """
    for name, source in classes.graph.unknown.items():
        yield f"no sharding rule for the primitive {name} ({source}): its arrays are left whole"
    inner = {axis for axis in inner_axes(mesh) if mesh[axis] > 1}
    for node, source in dict.fromkeys(classes.graph.grouped):
        if idle := sorted(inner - {*axes.get(classes.graph.find(node), ())}):
            yield (
                f"grouped convolution ({source}): its channels are not split over {', '.join(idle)}, "
                "and XLA then makes the gradient of its kernel too large where data or fsdp splits "
                "the batch: choose shards that divide the channels, or model=1"
            )
