"""What --lora asks for: an adapter (Hu et al. 2021) that is trained beside a model that is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from redco_new.errors import RedcoError

OFF = "off"  # what --lora takes to leave it out again
KEYS = ("rank", "alpha", "targets", "base", "dropout", "rslora", "dora", "sweep")
BASES = ("int8", "nf4")  # what the model can be stored in
EXAMPLE = "rank=16,alpha=32,targets=q,v"
MOST_RANK = 1 << 16  # more features than a layer of any model has
MOST_ADAPTERS = 1 << 10  # of a run: a line of each in its table


@dataclass(frozen=True)
class Lora:
    """An adapter.

    rank: features between its two products.
    alpha: what it adds is times alpha / rank.
    targets: the linear layers that have one, by the names of the model or of its checkpoints; () for all.
    base: of BASES, how the linear layers of the model are stored; "" for the dtype of the computation.
    dropout: share of the features that it does not see, in training.
    rslora: whether what it adds is times alpha / the root of rank (Kalajdzievski 2023).
    dora: whether it says how long the columns of a matrix are too (Liu et al. 2024).
    sweep: how many of them a run trains at once, as config.py has them at first; 0: the one.
    """

    rank: int = (
        16  # rank and scale as in PEFT's examples: a trade of memory for what can be learned
    )
    alpha: float = 32.0
    targets: tuple[str, ...] = ()
    base: str = ""
    dropout: float = 0.0
    rslora: bool = False
    dora: bool = False
    sweep: int = 0

    def sweep_around(self, rate: float) -> dict[str, tuple[float, ...]]:
        """Return the learning rates of its adapters at first: from a tenth of one to ten times it, in equal factors."""
        powers = [2 * i / max(self.sweep - 1, 1) - 1 for i in range(self.sweep)]
        rates = [rate * 10**power for power in powers] if self.sweep > 1 else [rate]
        return {"learning_rates": tuple(float(f"{one:.3g}") for one in rates)}

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain data, for redco.toml."""
        sizes = {"rank": self.rank, "alpha": self.alpha, "targets": list(self.targets)}
        others = {name: getattr(self, name) for name in KEYS[3:]}
        return sizes | {name: value for name, value in others.items() if value}


def check_lora(where: str, value: Any) -> Lora | None:
    """Return what a flag, or a table of redco.toml, asks for; None for "off". Raises RedcoError."""
    if isinstance(value, str):
        if value == OFF:
            return None
        value = _parse(where, value)
    if not isinstance(value, Mapping):
        raise RedcoError(where, f"{value!r} is no table", f"give {EXAMPLE}, as a table of TOML")
    if unknown := sorted(value.keys() - {*KEYS}):
        raise RedcoError(where, f"unknown key {unknown[0]!r}", f"the keys are {', '.join(KEYS)}")
    rank, alpha = value.get("rank", Lora.rank), value.get("alpha", Lora.alpha)
    targets = value.get("targets", [])
    if type(rank) is not int or not 0 < rank <= MOST_RANK:
        todo = f"give a whole number from 1 to {MOST_RANK}"
        raise RedcoError(f"{where}: rank", f"{rank!r} is no rank", todo)
    if type(alpha) not in (int, float) or not 0 < alpha < float("inf"):
        raise RedcoError(f"{where}: alpha", f"{alpha!r} is no scale", "give a number above 0")
    if not isinstance(targets, list | tuple) or not all(t and isinstance(t, str) for t in targets):
        what, todo = f"{targets!r} are no names of layers", "give some, such as q,v"
        raise RedcoError(f"{where}: targets", what, todo)
    base = value.get("base", "")
    if base not in ("", *BASES):
        raise RedcoError(f"{where}: base", f"{base!r} is none", f"choose {' or '.join(BASES)}")
    dropout = value.get("dropout", 0.0)
    if type(dropout) not in (int, float) or not 0 <= dropout < 1:
        todo = "give a number from 0 to below 1"
        raise RedcoError(f"{where}: dropout", f"{dropout!r} is no share", todo)
    flags = {name: value.get(name, False) for name in ("rslora", "dora")}
    for name, flag in flags.items():
        if type(flag) is not bool:
            raise RedcoError(f"{where}: {name}", f"{flag!r} is neither", "give true or false")
    sweep = value.get("sweep", 0)
    if type(sweep) is not int or not 0 <= sweep <= MOST_ADAPTERS:
        todo = f"give a whole number from 1 to {MOST_ADAPTERS}, or 0 for the one"
        raise RedcoError(f"{where}: sweep", f"{sweep!r} is no number of adapters", todo)
    names = tuple(dict.fromkeys(targets))
    return Lora(rank, float(alpha), names, base, float(dropout), **flags, sweep=sweep)


def _parse(where: str, text: str) -> dict[str, Any]:
    """Return the table that `rank=16,alpha=32,targets=q,v` is. Raises RedcoError."""
    words: dict[str, list[str]] = {}
    for part in text.split(","):
        key, equals, word = part.partition("=")
        if equals and key.strip() not in words:
            words[key.strip()] = [word.strip()]
        elif equals or "targets" not in words or [*words][-1] != "targets":
            raise RedcoError(where, f"{text!r} is not understood", f"give {EXAMPLE}, or {OFF}")
        else:
            words["targets"].append(part.strip())
    table: dict[str, Any] = {key: word[0] for key, word in words.items()}
    if "targets" in words:
        table["targets"] = words["targets"]
    kinds: dict[str, Callable[[str], Any]] = {
        "rank": int,
        "sweep": int,
        "alpha": float,
        "dropout": float,
        "rslora": _flag,
        "dora": _flag,
    }
    for key, kind in kinds.items():
        if key in table:
            try:
                table[key] = kind(table[key])
            except ValueError:
                pass  # check_lora says what is wrong with it
    return table


def _flag(word: str) -> bool:
    return ("false", "true").index(word) == 1
