"""A class of PyTorch, drawn up: one program out of those of all probes, tried at sizes that none of these has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import fx

from redco_new.errors import RedcoError
from redco_new.own.find import Reference
from redco_new.pytorch.again import part_again, with_copies
from redco_new.pytorch.buffers import trace_start
from redco_new.pytorch.classes import Classes, print_classes
from redco_new.pytorch.construct import Instance, construct
from redco_new.pytorch.depth import is_of_any_length
from redco_new.pytorch.draft import Draft
from redco_new.pytorch.dims import input_dims
from redco_new.pytorch.dtypes import FIELD
from redco_new.pytorch.fields import argument_of, asked_fields, class_fields, value_of
from redco_new.pytorch.graph import Traced, trace
from redco_new.pytorch.layers import Count
from redco_new.pytorch.notes import FIXED, ITS_OWN
from redco_new.pytorch.own_numbers import print_numbers, trace_other_inputs
from redco_new.pytorch.nested import rows_as_layers
from redco_new.pytorch.periods import FEW, in_periods, new_path, order_of
from redco_new.pytorch.printed import Field
from redco_new.pytorch.printed_class import Made, Printed, Probe
from redco_new.pytorch.probe import Sizes
from redco_new.pytorch.search import LEAST
from redco_new.pytorch.setting import Name, Setting
from redco_new.pytorch.refusal import OTHERWISE, Unsaid, UnlikeProgram, refuse
from redco_new.pytorch.subject import Way
from redco_new.pytorch.text_facts import with_cache, with_length
from redco_new.pytorch.texts import TextMethods, follow_attention
from redco_new.pytorch.transformers_classes import MASK, is_transformers
from redco_new.pytorch.windows import say_windows

KEEP = "self.config = config"
# Of layers in a loop, what is saved for the backward pass: as a family has it.
REMAT = Field("remat", "", "str", "fit", "everything_saveable")
FindSizes = Callable[..., Sizes]
T = TypeVar("T")
Trace = Callable[[Setting], Made]
Start = Callable[[Setting, Instance], Mapping[str, fx.Graph]]


def draft_class(
    reference: Reference,
    way: Way,
    dtype: torch.dtype,
    base: Made,
    sizes: FindSizes,
    is_right: Callable[[Draft, Setting], bool],
) -> Draft:
    """Return a class, printed: probes of it become one program.

    base: as its user's sizes make it. is_right: whether it computes what the class does with other sizes
    """
    searches: list[tuple[Any, ...]] = [
        (LEAST, False, False),
        (4 * LEAST, False, False),
        (LEAST, True, False),
    ]
    if any(len(x.shape) > 1 for x in way.call.inputs.values()):  # images as large as tables are
        searches.insert(1, (LEAST, False, False, True))
    own = not is_transformers(reference.value)
    trace_one = _once(partial(trace_way, way, dtype=dtype))
    start_one = _once(partial(_start, way))
    tried, unsaid, spare = list[Sequence[Setting]](), list[Sizes](), list[Draft]()
    for search in searches + [(LEAST, False, True)] * own:
        chosen = sizes(*search)
        if chosen.settings in tried:
            continue
        tried.append(chosen.settings)
        try:
            draft = _draft_of(reference, way, trace_one, start_one, base, chosen)
            if not is_right(draft, chosen.unseen()):
                # A number that these sizes say by chance: the one that it is not of is among them.
                spare.append(draft)
                chosen = replace(chosen, settings=[*chosen.settings, chosen.unseen()])
                draft = _draft_of(reference, way, trace_one, start_one, base, chosen)
        except UnlikeProgram as error:  # of sizes too small to divide, or by other factors than two
            unlike = error
            unsaid += [chosen] * isinstance(error, Unsaid)
            continue
        if search[2]:
            draft.classes.note(FIXED.format(name=reference.name))
        if unsaid and not all(is_right(draft, x) for x in unsaid[0].settings[1:]):
            spare.append(draft)  # what says its numbers here does so for these sizes alone
            break
        return draft
    for chosen in unsaid[:1]:
        try:
            return _draft_of(reference, way, trace_one, start_one, base, chosen, numbers=True)
        except UnlikeProgram as error:
            unlike = error
    if spare:
        spare[0].classes.note(ITS_OWN.format(name=reference.name))
        return spare[0]
    raise unlike


def _once(trace_one: Callable[..., T]) -> Callable[..., T]:
    """Return what traces each setting once: a class that is drawn up again has most of them again."""
    programs = list[tuple[Setting, T]]()

    def remember(setting: Setting, *more: Any) -> T:
        for former, one in programs:
            if former is setting:
                return one
        programs.append((setting, trace_one(setting, *more)))
        return programs[-1][1]

    return remember


def _draft_of(
    reference: Reference,
    way: Way,
    trace_one: Trace,
    start_one: Start,
    base: Made,
    sizes: Sizes,
    numbers: bool = False,
) -> Draft:
    """Return a class as sizes make it. numbers: whether one that follows from no size is a field of its own"""
    call, small, lengths = way.call, sizes.small, sizes.lengths
    fields = class_fields(sizes.settings, small, way.kind.fields if way.kind else {})
    settings, ways = _trace_all(sizes.settings, trace_one, base, numbers)
    if len({traced.orders for _, traced in ways}) > 1:
        raise UnlikeProgram(
            reference.name, "its layers come back in another order for other sizes", OTHERWISE
        )
    rows = zip(settings, ways, input_dims(settings), strict=True)
    probes = [_probe(setting, one, fields, dims, start_one) for setting, one, dims in rows]
    if way.texts and not follow_attention(probes[0].traced.graphs):
        raise refuse(reference.name, "it computes with its mask of attention")
    few = {
        size: _few_layers(way, small, size, paths, base, trace_one)
        for size, paths in lengths.items()
    }
    counts = {
        path: _count(probes[0].traced, path, f"config.{size[-1]}")
        for size, paths in lengths.items()
        for path in paths
        if few[size]
    }
    inputs = [key for key in call.inputs if key != MASK]
    program = (inputs, counts, way.texts, way.kind)
    if numbers:
        classes, whole, more = print_numbers(probes, program, settings, small, fields)
        fields += more
    else:
        classes, whole = print_classes(probes, *program)
    shorter = set[str]()  # lists of which the gate has fewer layers
    for size, paths in lengths.items():
        if not few[size] or not paths <= classes.stacked:
            continue  # it has no field: its parts are written out
        small, shorter = small.of_layers(size, few[size]), shorter | paths
        value = way.layers.get(size, sizes.settings[0].get(size))
        fields.append(Field(str(size[-1]), argument_of(size), "int", value, few[size]))
    fields += _fields_of_runs(classes, reference)
    _become_whole(whole, classes, fields)
    of_recipes = tuple(way.kind.fields.values()) if way.kind else ()
    fields += asked_fields(way.kind, fields, sizes.settings[0], small, reference.value)
    orders = (x.few if x.path in shorter else x for x in base[1].orders)
    return Draft(classes, whole, fields, small, reference, of_recipes, tuple(orders), (*lengths,))


def _trace_all(
    settings: Sequence[Setting], trace_one: Trace, base: Made, numbers: bool
) -> tuple[list[Setting], list[Made]]:
    """Return settings and the programs of them. numbers: with one more, of other inputs"""
    ways = [base, *map(trace_one, settings[1:])]
    if not numbers:
        return [*settings], ways
    setting, other = trace_other_inputs(settings, trace_one, base)
    return [*settings, setting], [*ways, other]


def _fields_of_runs(classes: Classes, reference: Reference) -> Iterator[Field]:
    """Yield the fields of a config that say how a run computes, and what it saves."""
    printed = classes.printed.values()
    if any(FIELD in x.arguments or f"config.{FIELD}" in "\n".join(x.init) for x in printed):
        usual = "bfloat16" if is_transformers(reference.value) else "float32"
        yield Field(FIELD, "", "str", usual, "float32")
    if classes.remat:
        yield REMAT


def _become_whole(whole: Printed, classes: Classes, fields: list[Field]) -> None:
    """Make a printed class the model of a project: its config, and the methods that recipes call."""
    whole.is_whole = True
    whole.docstring = f"{whole.name}, as its arguments are in {whole.name}Config."
    if isinstance(whole.methods, TextMethods):
        whole.methods = with_cache(whole.methods, classes, fields)
    elif whole.methods:
        whole.methods = with_length(whole.methods, classes, fields)
    if whole.methods:
        reads = whole.methods.longest or getattr(whole.methods, "cache", "")
        if reads and KEEP not in whole.init:
            whole.init.insert(0, KEEP)


def _few_layers(
    way: Way, small: Setting, size: Name, paths: set[str], base: Made, trace_one: Trace
) -> int:
    """Return how many layers of some lists the gate compares; 0 where they have another program for another number, or are no such periods."""
    if size not in way.layers and not is_of_any_length(way, small, size, paths):
        return 0
    orders = [order for order in base[1].orders if order.path in paths]
    if not orders:
        return FEW
    order = orders[0]
    if len(orders) < len(paths) or len(orders) > 1 or order.after:
        return 0
    if small.get(size) == order.least:
        return order.least
    try:
        _, traced = trace_one(small.of_layers(size, order.least))
    except RedcoError:
        return 0
    return order.least if order.few in traced.orders else 0


def _count(traced: Traced, path: str, layers: str) -> Count:
    """Return how many parts a list has. layers: Python of how many layers of the class are in it"""
    order = order_of(traced.orders, path)
    return Count(layers, order.before, order.length) if order else Count(layers)


def trace_way(way: Way, setting: Setting, dtype: torch.dtype) -> Made:
    """Return a class as a setting makes it, and its program. Raises RedcoError where it has none."""
    instance = construct(lambda: way.make(setting.arguments), dtype=dtype)
    if way.drawn_by_layers:
        for size, count in way.layers.items():
            setting = setting.of_layers(size, count)
        drawn = construct(lambda: way.make(setting.arguments)).draws
        instance = replace(instance, draws={name: drawn[name] for name in instance.draws})
    traced = trace(instance.module, setting.arrays(way.call, dtype))
    return say_windows(*in_periods(*rows_as_layers(*part_again(instance, traced))))


def _start(way: Way, setting: Setting, instance: Instance) -> Mapping[str, fx.Graph]:
    return trace_start(lambda: way.make(setting.arguments), instance)


def _probe(
    setting: Setting, one: Made, fields: list[Field], dims: Mapping[str, int], start_one: Start
) -> Probe:
    instance, traced = one
    sizes = {f"config.{f.name}": value_of(f, setting) for f in fields}
    every = with_copies(traced.copies, start_one(setting, instance))
    buffers = {new_path(traced.orders, name): x for name, x in every.items()}
    return Probe(instance, traced, sizes, setting.batch, buffers, dims)
