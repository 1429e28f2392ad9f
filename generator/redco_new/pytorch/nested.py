"""Lists of lists of parts, as `for attention, feed_forward in self.layers`: what is done with one of them is a layer.

Nothing is called with the parts of one entry, and with them alone, so torch.export has no program of it. Where all entries have the
same steps, one after the other, these become the program of a `Row`, which the rest of this package finds as a layer of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import fx, nn

from redco_new.pytorch.lists import is_list
from redco_new.pytorch.author import statement_of
from redco_new.pytorch.construct import Instance
from redco_new.pytorch.graph import Traced
from redco_new.pytorch.layers import may_stack
from redco_new.pytorch.paths import upwards
from redco_new.pytorch.periods import class_of_program
from redco_new.pytorch.rows import Row, part_names

Steps = list[fx.Node]
TEXT = "What is done with the parts of one entry."


def rows_as_layers(instance: Instance, traced: Traced) -> tuple[Instance, Traced]:
    """Return a class and its program, of which lists of lists are those of layers. It is changed in place."""
    graphs, arguments = dict(traced.graphs), dict(instance.arguments)
    for path, part in [*traced.module.named_modules()]:
        owner = next((x for x in upwards(path.rpartition(".")[0]) if x in graphs), "")
        below = path.removeprefix(f"{owner}.") if owner else path
        if not _is_nested(part) or not (rows := _rows(graphs[owner], below, len(part))):
            continue
        paths = [f"{path}.{i}" for i in range(len(part))]
        carried = _carried(rows, below)
        if not carried or not may_stack(traced.module, paths):
            continue
        kind = _row_class(type(traced.module.get_submodule(owner)), below, carried[1][0])
        kind.names = part_names(traced.module, path)
        before, gives = carried
        for i, (steps, after) in enumerate(zip(rows, gives, strict=True)):
            entry = kind()
            entry._modules = part._modules[str(i)]._modules
            part._modules[str(i)] = entry
            graphs[f"{path}.{i}"], before = _fold(steps, before, after, f"{below}.{i}")
            arguments[f"{path}.{i}"] = instance.arguments.get(owner, {})
    return replace(instance, arguments=arguments), replace(traced, graphs=graphs)


def _is_nested(part: nn.Module) -> bool:
    """Return whether a part is a list of lists, or of dicts, of as many parts, of the same classes."""
    if not isinstance(part, nn.ModuleList) or len(part) < 2 or not is_list(part):
        return False
    rows = [*part.children()]
    if not all(type(row) in (nn.ModuleList, nn.ModuleDict) for row in rows):
        return False
    return len({tuple((k, type(x)) for k, x in row.named_children()) for row in rows}) == 1


def _rows(graph: fx.Graph, below: str, count: int) -> list[Steps]:
    """Return the steps of each entry of a list, from the call of its first part on; [] where they do not follow each other."""
    steps = [x for x in graph.nodes if x.op not in ("placeholder", "get_attr", "output")]
    starts: list[int] = []
    for place, node in enumerate(steps):
        if node.op == "call_module" and str(node.target).startswith(f"{below}."):
            number = int(str(node.target).removeprefix(f"{below}.").partition(".")[0])
            if number == len(starts):
                starts.append(place)
            elif number != len(starts) - 1:
                return []
    if len(starts) != count or count < 2:
        return []
    length = starts[1] - starts[0]
    return [steps[start : start + length] for start in starts]


def _carried(rows: Sequence[Steps], below: str) -> tuple[fx.Node, Steps] | None:
    """Return what the first entry is given, and what each gives to the next, where that is one array and all do the same; else None."""
    gives: Steps = []
    for row in rows:
        read_after = [x for x in row if any(user not in row for user in x.users)]
        if len(read_after) != 1:
            return None
        gives += read_after
    first = {
        one
        for node, other in zip(*rows[:2], strict=False)
        for one, two in zip(node.all_input_nodes, other.all_input_nodes, strict=False)
        if two is gives[0] and one not in rows[0]
    }
    if len(first) != 1 or len({len(row) for row in rows}) != 1:
        return None
    takes = [*first, *gives[:-1]]
    for i, (row, before) in enumerate(zip(rows, takes, strict=True)):
        twins = dict(zip(row, rows[0], strict=True)) | {before: takes[0]}
        for node, other in zip(row, rows[0], strict=True):
            mapped = fx.node.map_arg((node.args, node.kwargs), _in(twins))
            targets = _target(node, f"{below}.{i}."), _target(other, f"{below}.0.")
            if mapped != (other.args, other.kwargs) or targets[0] != targets[1]:
                return None
    return takes[0], gives


def _in(twins: Mapping[fx.Node, fx.Node]) -> Callable[[fx.Node], fx.Node]:
    return lambda x: twins.get(x, x)


def _target(node: fx.Node, start: str) -> Any:
    """Return what a step calls: of a part of an entry its path there."""
    return str(node.target).removeprefix(start) if node.op == "call_module" else node.target


def _row_class(owner: type[nn.Module], below: str, result: fx.Node) -> type[Row]:
    """Return the class of the entries of a list: it is called as its owner and the list are, and takes what it gives."""
    first = statement_of(result.meta.get("stack_trace")).names
    word = below.rpartition(".")[2].removesuffix("s").title().replace("_", "")
    return class_of_program(
        Row, f"{owner.__name__}{word}", first[0] if len(first) == 1 else "x", TEXT
    )


def _fold(steps: Steps, before: fx.Node, after: fx.Node, target: str) -> tuple[fx.Graph, fx.Node]:
    """Put one call in the place of the steps of an entry; return its program, and that call."""
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    read = dict.fromkeys(x for node in steps for x in node.all_input_nodes if x not in steps)
    inputs = [before, *(x for x in read if x is not before)]
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in steps:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node].target = _target(node, f"{target}.")
    graph.output(copies[after])
    owner = steps[-1].graph
    with owner.inserting_after(steps[-1]):
        whole = owner.call_module(target, tuple(inputs))
    whole.meta = dict(after.meta)
    after.replace_all_uses_with(whole, lambda user: user not in steps)
    for node in reversed(steps):
        owner.erase_node(node)
    return graph, whole
