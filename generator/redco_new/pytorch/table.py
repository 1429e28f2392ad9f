"""What weights.py of a project of a printed class prints: what PyTorch calls each array of model.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from redco_new.models.dropout import rates_in
from redco_new.pytorch.printed import Field, HubFacts, PrintedClass, Stored
from redco_new.render.python import print_data
from redco_new.render.values import Code, Name, Plain, Text

# Names in a file of what is no weight: how many steps of PyTorch's BatchNorm there were.
COUNTS = "*.num_batches_tracked"
WHY = "  # what PEFT calls parts of these"
RATES = "; a rate that training is without is as in the class"
# How model.py says that a text is shorter than its table of positions: text_methods.py prints it.
LESS = re.compile(r"if S > self\.config\.\w+ - (\d+):")


@dataclass(frozen=True)
class TableSource:
    """What templates/own/printed prints.

    package: of the project, that Python imports
    name: of the class of PyTorch
    config_class: of model.py
    example: a name in its state_dict
    ignored: names in files of what is no array of the model
    tensors: path in model.py -> Tensor, as Python
    apart: Python for what is stored as several, by `config` of the class
    imports: what that needs of sharding.py and config.py
    within: the line that says parts of these names -> in PEFT, where the class is a part of what a checkpoint has
    rates: of such, what the docstring of its config.json says of rates that a run may be without
    prefix, hf, keys: of a decoder of texts: what names of tensors begin with, what config.json says, and its keys that
        are fields of the config
    """

    package: Name
    name: Name
    config_class: Name
    example: str
    ignored: tuple[Text, ...]
    tensors: Mapping[Text, Code]
    apart: Code
    imports: tuple[Code, ...]
    within: tuple[Code, ...]
    rates: Text
    prefix: Text
    hf: Plain
    keys: Mapping[Text, Code]


def table_source(
    package: str, printed: PrintedClass, tiny: bool, within: Mapping[str, str]
) -> TableSource:
    """Return what weights.py prints of a class.

    package: the project's, that Python imports
    tiny: whether the preset tiny has other sizes, and arrays that are stored as other parts
    within: parts of these names -> in PEFT; {} where the class is what a checkpoint has
    """
    table = {**printed.parameters, **printed.buffers}
    others = {name: other for other, name in printed.tied.items()}
    choice = "TINY_APART if config == TINY.model else APART"
    config = (f"from {package}.config import TINY",) if tiny else ()
    sharding = "APART, TINY_APART" if tiny else "APART"
    hub = printed.hub or HubFacts({}, "")
    keys = _config_keys(printed.fields, hub.config)
    return TableSource(
        package=package,
        name=printed.name,
        config_class=printed.config_class,
        example=next(iter(table.values())).name.replace("{}", "0"),
        ignored=(*printed.tied, COUNTS) if printed.buffers else tuple(printed.tied),
        tensors={path: _tensor(stored, others) for path, stored in table.items()},
        apart=choice if tiny else "APART",
        imports=(*config, f"from {package}.sharding import {sharding}"),
        within=(f"WITHIN = {print_data(within)}{WHY}",) if within else (),
        rates=RATES if any(_is_rate(x) for x in printed.fields if _is_in(x, hub.config)) else "",
        prefix=hub.prefix,
        hf={k: x for k, x in hub.config.items() if k not in keys or isinstance(x, dict)},
        keys=keys,
    )


def _config_keys(fields: Iterable[Field], config: Mapping[str, Any]) -> dict[str, str]:
    """Return keys of a config.json that have fields of config.py -> their values as Python, of a config within it those that do."""
    keys, parts = dict[str, str](), dict[str, str]()
    for field in (x for x in fields if _is_in(x, config)):
        key, _, inner = field.argument.partition(".")
        value = f"config.{field.name}" + (f" or {field.value}" if _is_rate(field) else "")
        if inner:
            parts[key] = parts.get(key, "") + f"{print_data(inner)}: {value}, "
        else:
            keys[key] = value
    return keys | {key: f"CONFIG[{print_data(key)}] | {{{x[:-2]}}}" for key, x in parts.items()}


def _is_in(field: Field, config: Mapping[str, Any]) -> bool:
    """Return whether a config.json, or a config within it, has a key for a field."""
    key, _, inner = field.argument.partition(".")
    return key in config and (not inner or inner in config[key])


def _is_rate(field: Field) -> bool:
    """Return whether a field is a rate of dropout, which a recipe may train without."""
    return bool(rates_in({field.argument.rpartition(".")[2]: field.value}))


def _tensor(stored: Stored, others: Mapping[str, str]) -> str:
    """Return what stores an array as the Python of a Tensor. others: name -> another of the same array."""
    order = [print_data(stored.order)] if stored.order else []
    first = [f"first={stored.first}"] if stored.first else []
    step = [f"step={stored.step}"] if stored.step != 1 else []
    other = others.get(stored.name)
    otherwise = [f"otherwise={print_data(other)}"] if other else []
    return f"Tensor({', '.join([print_data(stored.name), *order, *first, *step, *otherwise])})"


def tensor_names(weights: str) -> dict[str, str]:
    """Return the path of each array in model.py -> the name of its tensor, by the text of weights.py."""
    return dict(re.findall(r'"([\w/]+)": Tensor\(\s*"([\w.{}]+)"', weights))


def names_in_peft(weights: str) -> dict[str, str]:
    """Return parts of the names of tensors -> in PEFT, where it has others, by the text of weights.py."""
    there = re.search(r"^WITHIN = (\{[^{}]*\})", weights, re.MULTILINE)
    return dict(ast.literal_eval(there[1])) if there else {}


def unused_positions(model: str) -> int:
    """Return how many positions of its table no text of a model has: those before its first token's, by its model.py."""
    there = LESS.search(model)
    return int(there[1]) if there else 0


def stacked_parts(weights: str) -> tuple[str, ...]:
    """Return the places in the model of layers that are stacked, as "model layers", by the text of weights.py."""
    rows = ((path, name.partition(".{}")) for path, name in tensor_names(weights).items())
    places = {(path, place.replace(".", "/")) for path, (place, several, _) in rows if several}
    return tuple(sorted({x.replace("/", " ") for path, x in places if path.startswith(x)}))
