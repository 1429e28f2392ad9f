"""How a project makes and calls a class of the user's own, as Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redco_new.request.own_class import Input
from redco_new.own.find import Found
from redco_new.own.build import Made
from redco_new.own.signature import MODES

# Flags of train.py, which an argument of the constructor cannot have too.
FLAGS = frozenset(
    {"batch_size", "beta1", "beta2", "clip_norm", "eval_every", "held_out", "help", "init", "keep"}
    | {"learning_rate", "log_every", "mesh", "micro_batches", "num_examples", "preset"}
    | {"sample_prompts", "save_every", "seed", "steps", "virtual_devices", "warmup_steps"}
    | {"weight_decay", "workdir"}
)


@dataclass(frozen=True)
class Source:
    """What model.py of a project says of a class. example: the function that gives its arguments."""

    made: Made
    inputs: Mapping[str, Input]
    example: Found | None

    def imports(self) -> list[dict[str, Any]]:
        """folder, module and names of each import of the user's code."""
        lines: dict[tuple[str, str], list[str]] = {}
        for each in filter(None, (self.made.found, self.example)):
            lines.setdefault((each.folder, each.module), []).append(each.name)
        return [{"folder": f, "module": m, "names": ", ".join(n)} for (f, m), n in lines.items()]

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Arguments that are fields of the config: field, type, value. The others are in the code."""
        found = {}
        for name, value in {} if self.example else self.made.arguments.items():
            each = {type(x) for x in value} if isinstance(value, tuple) else {type(value)}
            if len(each) == 1 and each <= {bool, int, float, str}:
                kind = each.pop().__name__
                kind = f"tuple[{kind}, ...]" if isinstance(value, tuple) else kind
                field = f"model_{name}" if name in FLAGS else name
                found[name] = {"field": field, "type": kind, "value": value}
        return found

    def construct(self) -> str:
        """The class, made."""
        made, settings = self.made, self.settings
        arguments = ["**arguments"] if self.example else []
        arguments += [f"{name}=config.{each['field']}" for name, each in settings.items()]
        if not self.example:
            arguments += [f"{k}={v!r}" for k, v in made.arguments.items() if k not in settings]
        if made.takes_rngs and "rngs" not in made.arguments:
            arguments.append("rngs=rngs")
        return f"{made.found.name}({', '.join(arguments)})"

    def start(self) -> str:
        """The arguments of the first call of a Linen module, which makes its variables."""
        shapes = {name: (1, *each.shape) for name, each in self.inputs.items()}
        arguments = [f'{k}=jnp.zeros({shapes[k]}, "{x.dtype}")' for k, x in self.inputs.items()]
        if self.made.mode:
            arguments.append(f"{self.made.mode}={not MODES[self.made.mode]}")
        return ", ".join([*arguments, *([] if self.made.random else ["rngs=rngs"])])

    def call(self) -> str:
        """The arguments of a call."""
        mode, arguments = self.made.mode, [f"{name}={name}" for name in self.inputs]
        if mode:
            arguments.append(f"{mode}={'not ' if MODES[mode] else ''}self.deterministic")
        if self.made.collections:
            arguments.append(f"mutable={list(self.made.collections)}")
        return ", ".join(arguments)
