"""The document of `redco inspect`, typed: what each key of its JSON holds."""

from __future__ import annotations

from typing import TypedDict

Entry = str | list[str] | None  # of a PartitionSpec: an axis, several, or none


class ParameterRow(TypedDict):
    """A parameter.

    path: its names, with slashes
    shape: as the model has it
    dtype: its name
    dims: the label of each dim
    spec: the PartitionSpec, an entry for each dim
    stored_shape: as it is stored, padded where a size does not divide
    shard_shape: of the part that a device holds
    bytes: of `shape`
    reason: why it is split so
    """

    path: str
    shape: list[int]
    dtype: str
    dims: list[str]
    spec: list[Entry]
    stored_shape: list[int]
    shard_shape: list[int]
    bytes: int
    reason: str


class ClassRow(TypedDict):
    """A class of dims, or several that are alike, such as the mlp of each layer of an unrolled model.

    label: what it is, in one word
    letter: that stands for it in names of arrays, if it has one
    sizes: of its dims
    count: how many classes are alike
    parameters: how many parameters have a dim of it
    axes: mesh axes that split it
    parts: how many they make
    fsdp: in how many of the parameters fsdp splits it
    what: what it is, in a few words
    why: who makes and reads it, or why it is not split
    """

    label: str
    letter: str | None
    sizes: list[int]
    count: int
    parameters: int
    axes: list[str]
    parts: int
    fsdp: int
    what: str
    why: str


class Memory(TypedDict):
    """Bytes of a device, without activations.

    elements: of all parameters together; of a matrix in few bits, those that it stands for
    trained: of those that have gradients
    all_parameters: bytes of the whole model
    parameters: of one device's parts
    gradients: of one device's parts
    moments: of one device's parts of Adam's two moments
    together: the sum of the last three
    """

    elements: int
    trained: int
    all_parameters: int
    parameters: int
    gradients: int
    moments: int
    together: int


class CollectiveRow(TypedDict):
    """A predicted collective; the fields are those of `Predicted`.

    kind: all-reduce, all-gather, reduce-scatter, all-to-all, collective-permute
    phase: forward, or backward
    axes: mesh axes over which it goes
    classes: of dims that cause it
    array: what is sent: "B S D", `parameters`, `gradients`
    bytes: on a device
    times: in a step
    sources: lines of the model that cause it
    """

    kind: str
    phase: str
    axes: list[str]
    classes: list[str]
    array: str
    bytes: int
    times: int
    sources: list[str]


class LayerTraffic(TypedDict):
    """What the layers of a model send.

    layers: how many there are
    collectives: of each layer, a line each
    """

    layers: int
    collectives: list[str]


class Document(TypedDict):
    """What `redco inspect` prints, draws, and writes as JSON.

    model: as it was named
    mesh: the sizes of the mesh axes
    batch: B and S as traced
    parameters: in the order of the model
    classes: in the order in which they were found
    memory: of one device
    whole: large parameters that each device holds in full, a line each
    collectives: of one step
    layer: those of each layer
    sent: bytes that a device sends in a step, by axes, with + between: the first lies across hosts where there are several
    warnings: about the plan
    """

    model: str
    mesh: dict[str, int]
    batch: dict[str, int]
    parameters: list[ParameterRow]
    classes: list[ClassRow]
    memory: Memory
    whole: list[str]
    collectives: list[CollectiveRow]
    layer: LayerTraffic
    sent: dict[str, int]
    warnings: list[str]
