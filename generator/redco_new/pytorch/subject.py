"""What is printed: a class of the user's own, or one of transformers, which a config makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import nn

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import Reference
from redco_new.own.signature import check_arguments, check_inputs, maker_signature
from redco_new.request.own_class import Constant
from redco_new.pytorch.attributes_read import without_unread
from redco_new.pytorch.kinds import LABELS, PAIRS, Kind, kind_of, writes_texts
from redco_new.pytorch.setting import Name
from redco_new.pytorch.transformers_classes import (
    CACHE,
    HANDED_ON,
    IDS,
    MASK,
    ONES,
    PLAIN,
    POSITIONS,
    config_numbers,
    is_transformers,
    make_of_config,
)

NO_HIDDEN = (
    "its logits are not made of hidden states alone: it is called as its forward, and trained by lm"
)


@dataclass(frozen=True)
class Way:
    """A way to make a class, as it is traced.

    make: the module of arguments
    call: what it is called with
    texts: whether it is printed as a decoder of texts
    note: for the user, where it is not the first
    kind: what else it is printed as, for the recipes of that
    layers: sizes that say how many there are -> of the user's, where it is traced with fewer
    drawn_by_layers: whether its parameters are drawn by how many there are
    """

    make: Callable[[Mapping[str, Any]], nn.Module]
    call: Call
    texts: bool = False
    note: str = ""
    kind: Kind | None = None
    layers: Mapping[Name, int] = field(default_factory=dict)
    drawn_by_layers: bool = False

    @property
    def plain_call(self) -> Call:
        """How the class is called as its users have it: where positions count from is its own."""
        arguments = self.call.arguments
        own = {k: x for k, x in arguments.items() if not (self.texts and k == POSITIONS)}
        return replace(self.call, arguments=own)


@dataclass(frozen=True)
class Subject:
    """A class, and how it is made and called.

    ways: to make it, the best first
    make_plain: the module as its users have it, which the gate compares with
    arguments: with the defaults of those that were not given
    """

    ways: tuple[Way, ...]
    make_plain: Callable[[Mapping[str, Any]], nn.Module]
    arguments: Mapping[str, Any]


def read_subject(
    reference: Reference,
    where: str,
    arguments: Mapping[str, Any],
    call: Call,
    by_hub: bool = True,
) -> Subject:
    """Return what is printed. Raises RedcoError for arguments that do not fit.

    by_hub: whether a class of transformers is printed as what it is for
    """
    cls, name = reference.value, reference.name
    check_inputs(where, name, inspect.signature(cls.forward), call.arguments)
    if is_transformers(cls):
        return _of_config(cls, where, arguments, call, by_hub)
    maker = reference.make or cls
    signature = maker_signature(maker)
    check_arguments(where, name, signature, arguments)
    bound = {k: p.default for k, p in signature.parameters.items() if p.default is not p.empty}

    def make(values: Mapping[str, Any]) -> nn.Module:
        return maker(**values)

    return Subject((Way(make, call),), make, without_unread(make, {**bound, **arguments}, call))


def _of_config(
    cls: Any, where: str, arguments: Mapping[str, Any], call: Call, by_hub: bool
) -> Subject:
    fields = {*vars(cls.config_class()), LABELS}
    if unfields := [key for key in arguments if key not in fields]:
        what = f"{cls.config_class.__name__} has no {unfields[0]}"
        raise RedcoError(f"{where}: [model]", what, "correct it")
    inputs = dict(call.arguments)
    takes = inspect.signature(cls.forward).parameters
    texts = inputs.keys() == {IDS} and MASK in takes and writes_texts(cls)
    kind = kind_of(cls, inputs) if by_hub and not texts else None
    if IDS in inputs and MASK in takes and MASK not in inputs:
        ones = replace(inputs[IDS], below=2, value=None)
        inputs[MASK] = ones if texts else replace(ones, dtype="bool", below=None)
    if CACHE in takes:
        inputs[CACHE] = Constant(False)
    return Subject(
        tuple(_ways(cls, inputs, call.method, texts, POSITIONS in takes, kind)),
        partial(
            make_of_config, cls, attention=PLAIN, experts=PLAIN, logits=texts or kind is not None
        ),
        config_numbers(cls, arguments),
    )


def _ways(
    cls: Any,
    inputs: dict[str, Any],
    method: str,
    texts: bool,
    positions: bool,
    kind: Kind | None,
) -> Iterator[Way]:
    """Yield the ways to trace a class of transformers: with attention of our runtime, or with its own."""
    make = partial(make_of_config, cls, logits=texts or kind is not None, parts=kind is PAIRS)
    plain, own = Call(inputs, method), partial(make, attention=PLAIN)
    note = f"{cls.__name__} has attention of its own: that is printed, and no kernel is used"
    if texts:
        places = {POSITIONS: replace(inputs[IDS], below=None, value=None)} if positions else {}
        handed_on = partial(make, mask=HANDED_ON)
        yield Way(handed_on, Call(inputs | places, method), True)
        yield Way(partial(make, mask=ONES), plain, True)
        yield Way(partial(own, mask=ONES), plain, True, note)
        ids = Call({key: x for key, x in inputs.items() if key != MASK}, method)
        yield Way(partial(own, mask=ONES), ids, note=f"{note}; {NO_HIDDEN}")
        return
    yield Way(make, plain, kind=kind)
    yield Way(own, plain, kind=kind, note=note)
