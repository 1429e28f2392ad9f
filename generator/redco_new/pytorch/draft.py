"""A class of PyTorch as it is printed, before it has passed the gate."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx

from redco_new.own.find import Reference
from redco_new.own.quick_programs import jit_quickly
from redco_new.pytorch.classes import Classes
from redco_new.pytorch.fields import value_of
from redco_new.pytorch.periods import Order
from redco_new.pytorch.printed import Field
from redco_new.pytorch.printed_class import Printed
from redco_new.pytorch.setting import Name, Setting
from redco_new.pytorch.text import lay_out, model_text
from redco_new.pytorch.transformers_classes import is_transformers
from redco_new.render.execute import load_text


@dataclass
class Draft:
    """A class that is printed, before it has passed the gate.

    fields: of its config, `small` the setting that the gate makes it with
    of_recipes: names of those that recipes read
    orders: how lists were taken apart, of as many layers as the gate makes
    lengths: sizes of the class that are how many parts a list has
    """

    classes: Classes
    whole: Printed
    fields: list[Field]
    small: Setting
    reference: Reference
    of_recipes: tuple[str, ...] = ()
    orders: tuple[Order, ...] = ()
    lengths: tuple[Name, ...] = ()

    @property
    def config_class(self) -> str:
        """The name of its config's class."""
        return f"{self.reference.name}Config"

    def text(self) -> str:
        """Return model.py, with the fields that it reads."""
        head, printed = _head(self.reference), list(self.classes.printed.values())
        text = model_text(head, self.config_class, self.fields, printed)
        # Configs have numbers for other classes too.
        self.fields = [f for f in self.fields if self._is_read(f, text)]
        return lay_out(model_text(head, self.config_class, self.fields, printed))

    def _is_read(self, field: Field, text: str) -> bool:
        """Return whether a field is an argument of the class itself, or read as one of a config, or by recipes."""
        if is_transformers(self.reference.value):
            reads = any(f"{name}.{field.name}" in text for name in ("config", "c"))
            return reads or field.name in self.of_recipes
        own = "." not in field.argument
        return own or re.search(rf"(?<!self)\.{field.name}\b", text) is not None

    def maker(self, text: str, **changes: Any) -> Callable[[], nnx.Module]:
        """Return what makes the printed model, in the small setting. changes: of its config"""
        loaded = load_text("printed/model.py", text)
        values = {f.name: f.small for f in self.fields} | changes
        config = getattr(loaded, self.config_class)(**values)
        return lambda: getattr(loaded, self.whole.name)(config, rngs=nnx.Rngs(0))

    def model(self, text: str, **changes: Any) -> nnx.Module:
        """Return the printed model, as `maker` has it, with parameters of zeros."""
        make = self.maker(text, **changes)

        @jit_quickly
        def create() -> Any:
            graph, params, *rest = nnx.split(make(), nnx.Param, ...)
            # The class's weights are brought later: what draws these is not compiled.
            return graph, jax.tree.map(jnp.zeros_like, params), *rest

        model: nnx.Module = nnx.merge(*create())
        return model

    def at(self, setting: Setting) -> Draft:
        """Return the draft as it is with other sizes, of as many layers as it has."""
        for size in self.lengths:
            setting = setting.of_layers(size, self.small.get(size))
        fields = [
            (
                replace(f, small=value_of(f, setting))
                if f.argument.partition(".")[0] in setting.arguments
                else f
            )
            for f in self.fields
        ]
        return replace(self, fields=fields, small=setting)


def _head(reference: Reference) -> str:
    source = reference.file or reference.module
    version = torch.__version__.partition("+")[0]
    return f"{reference.name} of {source}, printed from PyTorch {version}: names of parts and variables are its own."
