"""The one call of this package: from a class of PyTorch to a `PrintedClass`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from flax import nnx

from redco_new.render.execute import load_text, use_runtime
from redco_new.own.call import Call
from redco_new.own.find import Reference
from redco_new.own.maker import call_user_code
from redco_new.own.source import FLAGS
from redco_new.pytorch.buffers import has_buffers, trace_buffers
from redco_new.pytorch.classes import Classes, Probe
from redco_new.pytorch.construct import construct
from redco_new.pytorch.gate import Pair, compare
from redco_new.pytorch.graph import trace
from redco_new.pytorch.printed import Field, PrintedClass
from redco_new.pytorch.probe import Search, Setting
from redco_new.pytorch.subject import read_subject
from redco_new.pytorch.text import model_text
from redco_new.pytorch.ties import tied_names
from redco_new.pytorch.transformers_classes import MASK, is_transformers
from redco_new.pytorch.weights import find_stored

FEW = 2  # layers of the model that the gate compares, where they are stacked
# Of layers in a loop, what is saved for the backward pass: everything, as where they are written out.
REMAT = Field("remat", "", "str", "everything_saveable", "everything_saveable")


def print_class(
    reference: Reference, where: str, arguments: Mapping[str, Any], call: Call
) -> PrintedClass:
    """Print a torch.nn.Module as an NNX class, and compare both: nothing comes back that the gate refuses.

    reference: the class, as `own.find.find_reference` imports it
    where: what gave `arguments` (of the constructor) and `call` (of `forward`), for messages

    Raises RedcoError, with the class's line, for what cannot be printed or differs from PyTorch.
    """
    name = reference.name
    use_runtime()
    subject = read_subject(reference, where, arguments, call)
    call, make = subject.call, subject.make
    call_user_code(name, lambda: construct(lambda: make(subject.arguments)))
    search = Search(make, call, Setting(subject.arguments, call.inputs))
    small = search.smaller()
    settings = [search.base, search.other(small, 1), search.other(small, 2)]
    fields = _fields(settings, small)
    probes = [_probe(make, setting, call, fields) for setting in settings]
    classes = Classes(probes, [key for key in call.inputs if key != MASK])
    lengths = search.lengths()
    texts = {size: f"config.{size[-1]}" for size in lengths}
    classes.lengths = {path: texts[size] for size, paths in lengths.items() for path in paths}
    whole = classes.of("")
    for size, paths in lengths.items():
        if paths <= classes.stacked:  # else it has no field: its parts are written out
            small = small.set((size,), FEW)
            fields.append(Field(str(size[-1]), str(size[1]), "int", search.base.get(size), FEW))
    if classes.remat:
        fields.append(REMAT)
    whole.is_whole, whole.docstring = True, f"{name}, as its arguments are in {name}Config."
    printed = list(classes.printed.values())
    text = model_text(_head(reference), f"{name}Config", fields, printed)
    if is_transformers(
        reference.value
    ):  # whose configs have numbers for what is not in the program
        fields = [f for f in fields if f"config.{f.name}" in text]
        text = model_text(_head(reference), f"{name}Config", fields, printed)
    config_class = f"{name}Config"
    values = {f.name: f.small for f in fields}
    model = _load(text, whole.name, config_class, values)
    torch_model = construct(lambda: subject.make_plain(small.arguments), "cpu").module
    parameters, buffers = find_stored(torch_model, _shapes(model), classes.stacked)
    pair = Pair(torch_model, model, parameters, buffers)
    gate = compare("--model", pair, small, call, whole.inputs)
    return PrintedClass(
        name=name,
        source=text,
        model_class=whole.name,
        config_class=config_class,
        fields=tuple(fields),
        inputs={key: x for key, x in call.inputs.items() if key in whole.inputs},
        modes=bool(buffers or classes.drops),
        parameters=parameters,
        buffers=buffers,
        tied=dict(tied_names(torch_model)),
        texts=False,
        requires=(f"torch {torch.__version__.partition('+')[0]}",),
        notes=tuple(classes.notes),
        gate=gate,
    )


def _load(text: str, model_class: str, config_class: str, values: Mapping[str, Any]) -> nnx.Module:
    """Return the printed model, instance with these values of its config."""
    loaded = load_text("printed/model.py", text)
    config = getattr(loaded, config_class)(**values)
    return getattr(loaded, model_class)(config, rngs=nnx.Rngs(0))


def _shapes(model: nnx.Module) -> dict[str, tuple[int, ...]]:
    """Return the arrays that a model holds: path -> shape; not the keys of random numbers."""
    state = nnx.to_flat_state(nnx.state(model, nnx.Not(nnx.RngState)))
    return {"/".join(map(str, path)): tuple(leaf.shape) for path, leaf in state}


def _fields(settings: list[Setting], small: Setting) -> list[Field]:
    """Return the numbers of the config: arguments of the class that the probes could change."""
    fields = []
    for name in settings[0].names():
        values = [setting.get(name) for setting in settings]
        if name[0] == "model" and len(name) == 2 and len(set(values)) > 1:
            argument = str(name[1])
            field = f"model_{argument}" if argument in FLAGS else argument
            fields.append(
                Field(field, argument, type(values[0]).__name__, values[0], small.get(name))
            )
    return fields


def _probe(
    make: Callable[..., torch.nn.Module], setting: Setting, call: Call, fields: list[Field]
) -> Probe:
    instance = construct(lambda: make(setting.arguments))
    traced = trace(instance.module, setting.arrays(call))
    sizes = {f"config.{f.name}": setting.arguments[f.argument] for f in fields}
    buffers = trace_buffers(lambda: make(setting.arguments)) if has_buffers(instance.module) else {}
    return Probe(instance, traced, sizes, setting.batch, buffers)


def _head(reference: Reference) -> str:
    source = reference.file or reference.module
    version = torch.__version__.partition("+")[0]
    return f"{reference.name} of {source}, printed from PyTorch {version}: names of parts and variables are its own."
