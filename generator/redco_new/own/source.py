"""What model.py of a project says: how it imports, makes and calls a class of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
from flax import linen

from redco_new.request.own_class import TINY, Constant, Input
from redco_new.own.build import AbstractModel
from redco_new.own.call import Leaf, Path, constant_value, join_path, subscripts
from redco_new.own.contents import print_array
from redco_new.own.find import Reference
from redco_new.own.imports import import_lines, reference_source
from redco_new.own.outputs import Output
from redco_new.own.signature import MODES
from redco_new.own.arguments import change_value
from redco_new.own.smaller import Tiny
from redco_new.render.values import Code, Name, Plain

# Flags of train.py, which an argument of the constructor cannot have too.
FLAGS = frozenset("""
    adam_epsilon algorithm batch_size best beta1 beta2 clip_norm ema_decay epochs eval_every eval_examples
    eval_rows final_rate held_out help init keep keep_every learning_rate learning_rate_decay log log_every max_skips
    mesh micro_batches moment_dtype num_examples on_nan patience preset preview profile sample_prompts save_every
    schedule seed settings silence spike step_timeout steps virtual_devices warmup_steps weight_decay workdir
    """.split())


@dataclass(frozen=True)
class ModelSource:
    """What templates/own/model/model.py.jinja prints.

    name: of the user's class
    flax: "Flax Linen" or "Flax NNX"
    imports: the lines of all imports but that of the class, and where its file is
    decorators: of the class of model.py
    model_class: the class of model.py, which wraps the user's
    config_class: the dataclass of its settings
    config_docstring: what the settings are
    config_fields: a line for each setting
    construct: the statements of __init__
    parameters: of __call__, with their types
    tiny: settings of the preset tiny that are not the defaults
    call: that __call__ makes of the user's class
    output: what takes the output that is trained out of what the call gives, or ""
    """

    name: Name
    flax: Code
    imports: tuple[Code, ...]
    decorators: tuple[Code, ...]
    model_class: Name
    config_class: Name
    config_docstring: Code
    config_fields: tuple[Code, ...]
    construct: tuple[Code, ...]
    tiny: Plain
    parameters: Code
    call: Code
    output: Code


@dataclass(frozen=True)
class _Setting:
    """An argument of the constructor that is a field of the config.

    field: its name there
    annotation: its type, as Python
    value: its default
    """

    field: str
    annotation: str
    value: Any


def model_source(
    model: AbstractModel, output: Output, example: Reference | None, tiny: Tiny
) -> ModelSource:
    """Return what model.py of a project of `model` prints.

    example: the function that gives the constructor's arguments, if there is one
    """
    name = model.name
    settings = {} if example else _settings(model.arguments)
    fields = [f"{s.field}: {s.annotation} = {s.value!r}" for s in settings.values()]
    preset = {settings[k].field: v for k, v in tiny.changes.items() if k in settings}
    if tiny.by_function or tiny.changes.keys() - settings.keys():
        fields.append(f"{TINY}: bool = False  # whether it is made small, for tests and a laptop")
        preset[TINY] = True
    call = _call_source(model, example)
    dataclasses = {k for k, value in model.arguments.items() if is_dataclass(value)}
    replaces = example is not None and not dataclasses.isdisjoint(tiny.changes)
    return ModelSource(
        name=name,
        flax="Flax Linen" if model.linen else "Flax NNX",
        imports=import_lines(model, example, call, replaces),
        decorators=("@unsharded  # sharding.py has the layout",) if model.shardings else (),
        model_class=f"{name}Model",
        config_class=f"{name}Config",
        config_docstring=_config_docstring(name, settings, example),
        config_fields=tuple(fields),
        construct=_construct_statements(model, settings, example, tiny),
        tiny=preset,
        parameters=", ".join(f"{name}: jax.Array" for name in model.inputs),
        call=call,
        output=output.source,
    )


def _settings(arguments: Mapping[str, Any]) -> dict[str, _Setting]:
    """Return the arguments that are fields of the config; model.py holds the others itself."""
    settings = {}
    for name, value in arguments.items():
        types = {type(x) for x in value} if isinstance(value, tuple) else {type(value)}
        if len(types) == 1 and types <= {bool, int, float, str}:
            annotation = types.pop().__name__
            if isinstance(value, tuple):
                annotation = f"tuple[{annotation}, ...]"
            field = f"model_{name}" if name in FLAGS or name == TINY else name
            settings[name] = _Setting(field, annotation, value)
    return settings


def _config_docstring(
    name: str, settings: Mapping[str, _Setting], example: Reference | None
) -> str:
    """Return what the config of model.py says of its settings, or of why there are none."""
    if example:
        return f"{example.name}() gives the arguments of {name}."
    if settings:
        return f"Arguments of {name}."
    return f"No settings: {name} takes no others than those in the code."


def _construct_statements(
    model: AbstractModel,
    settings: Mapping[str, _Setting],
    example: Reference | None,
    tiny: Tiny,
) -> tuple[str, ...]:
    """Return the statements that make `self.net`."""
    is_made = isinstance(model.reference.value, linen.Module)
    statements = []
    if example and not is_made:
        function = reference_source(example, model)
        statements += _argument_statements(function, model.arguments, tiny)
    if model.mode:
        statements.append("self.deterministic = False  # train() and eval() set it")
    instance = _construct_call(model, settings, example, tiny)
    if not model.linen:
        return (*statements, f"self.net = {instance}")
    rngs = ", rngs=rngs" if model.random else ""
    return (
        *statements,
        f"self.net = nnx.bridge.ToNNX({instance}{rngs})",
        f"self.net.lazy_init({_init_arguments(model, example)})",
    )


def _argument_statements(function: str, arguments: Mapping[str, Any], tiny: Tiny) -> list[str]:
    """Return the statements that put what the user's function gives into `arguments`."""
    if tiny.by_function:
        return [f"arguments, _ = {function}({TINY}=config.{TINY})"]
    statements = [f"arguments, _ = {function}()"]
    if tiny.changes:
        statements.append(f"if config.{TINY}:")
    for name, change in tiny.changes.items():
        item = f"arguments[{name!r}]"
        if not isinstance(change, Mapping):
            statements.append(f"    {item} = {change!r}")
        elif is_dataclass(arguments[name]):
            fields = ", ".join(f"{key}={value!r}" for key, value in change.items())
            statements.append(f"    {item} = replace({item}, {fields})")
        else:
            statements.append(f"    {item} = {item} | {change!r}")
    return statements


def _construct_call(
    model: AbstractModel,
    settings: Mapping[str, _Setting],
    example: Reference | None,
    tiny: Tiny,
) -> str:
    """Return the call of the user's constructor."""
    if isinstance(model.reference.value, linen.Module):
        return reference_source(model.reference, model)
    if example:
        arguments = ["**arguments"]
    else:
        arguments = [f"{name}=config.{setting.field}" for name, setting in settings.items()]
        for name, value in model.arguments.items():
            if name in tiny.changes and name not in settings:
                small = change_value(value, tiny.changes[name])
                arguments.append(f"{name}={small!r} if config.{TINY} else {value!r}")
            elif name not in settings:
                arguments.append(f"{name}={value!r}")
    if model.takes_rngs and "rngs" not in model.arguments:
        arguments.append("rngs=rngs")
    return f"{reference_source(model.reference, model)}({', '.join(arguments)})"


def _init_arguments(model: AbstractModel, example: Reference | None) -> str:
    """Return the arguments of the first call of a Linen module, which makes its variables."""

    def source(path: Path, leaf: Leaf) -> str:
        if isinstance(leaf, Input):
            return f'jnp.zeros({(1, *leaf.shape)}, "{leaf.dtype}")'
        return _constant_source(path, leaf, model, example)

    arguments = model.call.print(source)
    if model.mode:
        arguments.append(f"{model.mode}={not MODES[model.mode]}")
    if model.call.method != "__call__":
        arguments.append(f'method="{model.call.method}"')
    if not model.random:
        arguments.append("rngs=rngs")
    return ", ".join(arguments)


def _call_source(model: AbstractModel, example: Reference | None) -> str:
    """Return the call of `self.net`."""

    def source(path: Path, leaf: Leaf) -> str:
        if isinstance(leaf, Input):
            return join_path(path)
        return _constant_source(path, leaf, model, example)

    arguments = model.call.print(source)
    if model.mode:
        arguments.append(f"{model.mode}={'not ' if MODES[model.mode] else ''}self.deterministic")
    if model.collections:
        arguments.append(f"mutable={list(model.collections)}")
    method = "" if model.call.method == "__call__" else f".{model.call.method}"
    return f"self.net{method}({', '.join(arguments)})"


def _constant_source(
    path: Path, constant: Constant, model: AbstractModel, example: Reference | None
) -> str:
    """Return a constant as Python; a large array without a pattern is that of the user's function."""
    value = constant_value(constant)
    if not isinstance(value, np.ndarray):
        return repr(value)
    printed = print_array(value)
    if printed or not example:
        return printed
    return f"{reference_source(example, model)}()[1]{subscripts(path)}"
