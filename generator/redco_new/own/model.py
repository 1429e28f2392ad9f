"""A class of the user's own, as a project trains it, and the files of the project that say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax

from redco_new.errors import RedcoError
from redco_new.request.names import package_name
from redco_new.request.own_class import TINY, Input, OwnClass
from redco_new.own.build import AbstractModel, abstract_batch, build_abstract
from redco_new.own.call import Call, check_names, read_arguments
from redco_new.own.find import Reference, check_callable, find_reference
from redco_new.own.contents import Content, find_contents
from redco_new.own.examples import setup_statements
from redco_new.own.foresight import FORESEES, foresees
from redco_new.own.outputs import Output, find_output
from redco_new.own.repeats import count_repeats
from redco_new.own.pipeline import Examples, PipelineSource, pipeline_source
from redco_new.own.recipes import OwnRecipe, find_recipe, name_target
from redco_new.own.maker import call_user_code
from redco_new.own.arguments import add_defaults, change_arguments
from redco_new.own.smaller import SMALL, Candidate, Tiny, find_difference, make_smaller, takes_tiny
from redco_new.own.source import ModelSource, model_source
from redco_new.own.wrapper import print_wrapper


@dataclass(frozen=True)
class OwnModel:
    """A class of the user's own, made and called, and how it is trained.

    abstract: the class, and what follows from its trace
    recipe: how it is trained
    output: the one of its outputs that is trained
    contents: what made-up examples have in each of its inputs
    example: the function that gives its arguments, if there is one
    package: the import name of the project
    tiny: its preset of that name
    small: the class as that has it, or as it is where it is small
    printed: whether model.py has the class itself, and not one around it
    """

    abstract: AbstractModel
    recipe: OwnRecipe
    output: Output
    contents: Mapping[str, Content]
    example: Reference | None
    package: str
    tiny: Tiny
    small: Candidate | None
    printed: bool = False

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.abstract.name

    @property
    def references(self) -> list[Reference]:
        """What model.py of the project imports of the user's."""
        return [self.abstract.reference, *([self.example] if self.example else [])]

    @property
    def inputs(self) -> Mapping[str, Input]:
        """The inputs of its call."""
        return self.abstract.inputs

    @property
    def stateful(self) -> bool:
        """Whether it has more than parameters, or computes otherwise in training."""
        return self.abstract.stateful

    @property
    def drops(self) -> bool:
        """Whether what it draws in training is by the keys of examples: of a printed class, all is."""
        return self.printed and self.abstract.random

    @property
    def notes(self) -> list[str]:
        """What its user should know."""
        abstract, notes = self.abstract, list[str]()
        if abstract.shardings:
            what = f"ignored: the sharding annotations of {self.name} ({abstract.shardings})"
            notes.append(f"{what}; the layout is redco's")
        path, blocks = count_repeats(zip(abstract.paths, abstract.shapes, strict=True))
        if blocks:
            what = (
                f"{blocks} blocks of {self.name} are alike, {path}, and each is compiled by itself"
            )
            notes.append(f"{what}: `redco docs own-class` shows how to stack them")
        return notes

    def notes_of_a_run(self) -> list[str]:
        """Return what its user should know, and what only a call of it tells, which takes a second."""
        if self.recipe.name != "lm" or not self.small or not foresees(self.small):
            return []
        return [FORESEES.format(name=self.name, recipe=self.recipe.name)]

    @cached_property
    def source(self) -> ModelSource:
        """What model.py of the project prints."""
        return model_source(self.abstract, self.output, self.example, self.tiny)

    @cached_property
    def pipeline(self) -> PipelineSource:
        """What pipeline.py of the project prints."""
        target, shape = name_target(self.recipe, self.inputs), self.output.shape[1:]
        setup = setup_statements(self.contents, self.abstract, self.package, self.example)
        selector = self.output.source if self.printed else ""
        examples = Examples(self.inputs, self.contents, target, shape, setup, selector)
        return pipeline_source(self.recipe, examples)

    def batch(self, rows: int) -> dict[str, jax.ShapeDtypeStruct]:
        """Return an abstract batch of `rows` rows, as the pipeline of the project makes them."""
        batch = abstract_batch(self.inputs, rows)
        target = name_target(self.recipe, self.inputs)
        if self.recipe.name == "classify":
            batch[target] = jax.ShapeDtypeStruct((rows,), "int32")
        elif target:
            batch[target] = jax.ShapeDtypeStruct((rows, *self.output.shape[1:]), "float32")
        return batch


@dataclass(frozen=True)
class Usage:
    """How a class is made and called.

    arguments: of its constructor
    call: what its call gets
    where: what said so, for messages
    example: the function that gave both, if there is one
    """

    arguments: Mapping[str, Any]
    call: Call
    where: str
    example: Reference | None = None


def read_usage(reference: Reference, own: OwnClass, folder: Path, method: str) -> Usage:
    """Return how the user says that a class is made and called. Raises RedcoError.

    folder: of the project, which paths are relative to
    method: that is called, where the user names none
    """
    method = own.method or method
    if not own.example:
        check_names(own.source, own.inputs)
        return Usage(own.arguments, Call(own.inputs, method), own.source)
    where = f"--example {own.example}"
    example = find_reference("--example", own.example, folder)
    arguments, inputs = _call_example(where, reference, method, example)
    check_names(where, inputs)
    return Usage(arguments, Call(inputs, method), where, example)


def find_own(
    reference: Reference,
    usage: Usage,
    recipe: str,
    own: OwnClass,
    project: str,
    shards: int = 1,
    *,
    printed: bool = False,
) -> OwnModel:
    """Return a class as `own` says and `recipe` trains it.

    project: the project's name
    shards: the most parts that a dim is split into
    printed: whether model.py has the class itself

    Raises RedcoError where there is no such recipe, or they do not fit each other.
    """
    own_recipe, arguments, example = find_recipe(recipe), usage.arguments, usage.example

    def make(arguments: Mapping[str, Any], where: str = usage.where) -> Candidate:
        abstract = build_abstract(reference, where, arguments, usage.call)
        output = find_output(own_recipe, abstract, own.output)
        contents = find_contents(own_recipe, abstract, output, where)
        return Candidate(abstract, output, contents)

    full = make(arguments)
    tiny, small, contents = _find_tiny(full, make, own, example, shards, bool(own_recipe.ids))
    package, abstract = package_name(project), full.abstract
    if not example:  # sizes that are the defaults become settings where the preset has others
        arguments = add_defaults(reference.value, arguments, tiny.changes)
        abstract = replace(abstract, arguments=arguments)
    return OwnModel(
        abstract, own_recipe, full.output, contents, example, package, tiny, small, printed
    )


def _find_tiny(
    full: Candidate,
    make: Callable[..., Candidate],
    own: OwnClass,
    example: Reference | None,
    shards: int,
    texts: bool,
) -> tuple[Tiny, Candidate | None, dict[str, Content]]:
    """Return the preset tiny, the class as that has it (or as it is, where it is small), and contents of inputs that are good for it and for the full model."""
    cls, arguments = full.abstract.reference.value, full.abstract.arguments
    where, changes = "[model.tiny]", dict(own.tiny)
    by_function = example is not None and takes_tiny(example)
    if example and by_function:
        where = f"--example {own.example}: tiny=True"
        call = full.abstract.call
        smaller, inputs = _call_example(where, full.abstract.reference, call.method, example, True)
        if Call(inputs, call.method).inputs != call.inputs:
            raise RedcoError(where, "its inputs have other shapes", "give those of the full model")
    else:
        changes = changes or make_smaller(full, make, shards, texts)
        smaller = change_arguments(cls, arguments, changes)
    if not (by_function or changes):
        sizes = map(math.prod, full.abstract.shapes)
        return Tiny({}), full if sum(sizes) < SMALL else None, dict(full.contents)
    tiny = make(smaller, where)
    if difference := find_difference(full, tiny, texts):
        raise RedcoError(where, f"{full.abstract.name} {difference}", "change other sizes")
    contents = {
        name: replace(content, below=min(content.below, tiny.contents[name].below))
        for name, content in full.contents.items()
    }
    return Tiny(changes, by_function), tiny, contents


def _call_example(
    where: str, model: Reference, method: str, example: Reference, tiny: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (arguments, arguments of the call) that the user's function gives. Raises RedcoError."""
    settings = {TINY: True} if tiny else {}
    check_callable(where, example)
    pair = call_user_code(example.name, lambda: example.value(**settings))
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(x, dict) for x in pair)):
        what = f"{example.name}() gives no pair of dicts"
        raise RedcoError(where, what, "return (arguments of the constructor, {name: array})")
    arguments, inputs = pair
    arrays = [name for name, x in inputs.items() if hasattr(x, "shape")]
    return arguments, read_arguments(
        where, inputs, lambda: print_wrapper(model, method, arguments, arrays)
    )
