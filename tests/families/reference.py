"""What the tests need to know of a family: each family has one, in a test_*.py of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from families.parity import Pair, make_pair

ADVICE = """no file of tests/families says how {name} is tested. Write tests/families/test_{file}.py with

    REFERENCES = {{"{name}": Reference(small={{...}}, check=..., parameters={{"SIZE": ...}})}}

as test_gpt2.py does; families/reference.py says what the fields are."""


@dataclass(frozen=True)
class Reference:
    """A small model of a family, and what holds for it.

    small: keyword arguments of transformers' config class, which make it small and with every part.
    check: raises AssertionError where a Pair of it differs from transformers' PyTorch class; such
        as decoders.check_all.
    parameters: size -> number of its parameters, as published or as the PyTorch class has them.
    seed: of the random weights: one with which greedy texts do not repeat one token.
    finish: changes PyTorch's model before its use.
    """

    small: Mapping[str, Any]
    check: Callable[[Pair], None]
    parameters: Mapping[str, int]
    seed: int = 0
    finish: Callable[[Any], None] | None = None

    def pair(self, family: str) -> Pair:
        """Return the emitted model beside PyTorch's."""
        return make_pair(family, self.seed, finish=self.finish, **self.small)


@cache
def references() -> dict[str, Reference]:
    """Return the references of all test_*.py here, by the family."""
    modules = [p.stem for p in sorted(Path(__file__).parent.glob("test_*.py"))]
    all_of_them: dict[str, Reference] = {}
    for module in modules:
        all_of_them |= getattr(import_module(f"families.{module}"), "REFERENCES", {})
    return all_of_them


def reference(family: str) -> Reference:
    """Return the reference of a family. Raises AssertionError that says what to write."""
    file = family.replace("-", "_")
    assert family in references(), ADVICE.format(name=family, file=file)
    return references()[family]
