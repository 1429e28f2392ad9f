"""Everything that a template of a project prints, each fact once. Templates decide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from redco_new.generate.first_runs import FirstRuns
from redco_new.generate.project_model import ProjectModel
from redco_new.models.recipes import RECIPES, Rate, Recipe, Setting, Words
from redco_new.render.values import Code, Name, Text, checked, one_of
from redco_new.request import Request

OWN = "own"  # the section `data` of a class of one's own


@dataclass(frozen=True)
class ProjectRecipe:
    """What is trained, and how a project speaks of it.

    data: whose section `data` config.py has, of templates/recipes/shared/data.
    rate: the learning rate at its peak, and why it is that.
    smooths: whether labels of its loss can be smoothed.
    perplexity: whether its loss is nats a token, which have one.
    writes: whether it writes texts, token by token.
    named: whether config.py names the classes that its model tells apart.
    prompt_fields: keys that a row of a file of prompts may have it under; (): the row is the prompt.
    settings: further ones of the section `train`.
    continues: whether a prediction goes on where the prompt ends.
    system: whether predict.py takes a system message, which stands before each prompt.
    routed: whether its loss has a part of the routers of experts, which is of all rows together.
    tokenized: whether the data has a tokenizer, which an export takes along.
    whole_batch: whether the loss of a row depends on the other rows, so that micro-batches change it.
    pictures: whether its examples are pictures, which may be read of a folder.
    teacher: whether train.py can train a model of it before the others.
    actors: whether the model makes its examples, by a rollout before each round of steps.
    served: whether a server may draw its answers.
    terms: whether its loss has terms besides the first one, in a dict.
    tokenizer: Hugging Face id or folder, or "bytes"; "" where its data has none.
    sequence_length: tokens of an example; 0 where it has none.
    """

    name: str
    words: Annotated[Words, checked("the recipe")]
    data: Annotated[str, one_of({OWN, *(one.data for one in RECIPES.values())})]
    rate: Annotated[Rate, checked("the recipe")]
    smooths: bool = False
    perplexity: bool = False
    writes: bool = False
    named: bool = False
    prompt_fields: tuple[Text, ...] = ("prompt",)
    settings: Annotated[tuple[Setting, ...], checked("the recipe")] = ()
    continues: bool = False
    system: bool = False
    routed: bool = False
    tokenized: bool = False
    whole_batch: bool = False
    pictures: bool = False
    teacher: bool = False
    actors: bool = False
    served: bool = False
    terms: bool = False
    tokenizer: Text = ""
    sequence_length: int = 0

    @classmethod
    def of(cls, recipe: Recipe, **others: Any) -> ProjectRecipe:
        """Return what a recipe says of itself, and `others`, which are the model's."""
        own = {one.name: getattr(recipe, one.name, None) for one in fields(cls)}
        return cls(**{name: value for name, value in own.items() if value is not None} | others)


@dataclass(frozen=True)
class SpecTable:
    """The table of one model in sharding.py.

    model: its branch of the parameters; "" where there is one model.
    specs: path of a parameter, in its branch -> spec, as Python.
    reasons: the same path -> its dims, and why it lies so: "L D N | columns: makes heads".
    like: the model whose table has what else it has; "" where it has all.
    """

    model: str
    specs: Mapping[Text, Code]
    reasons: Mapping[Text, str]
    like: str = ""

    @property
    def name(self) -> str:
        """What sharding.py calls it."""
        return self.model.upper() or "PARAMS"

    @property
    def parts(self) -> list[str]:
        """The tables that it is made of."""
        own = [self.name] if self.specs or not self.like else []
        return [*([self.like.upper()] if self.like else []), *own]


@dataclass(frozen=True)
class ProjectLayout:
    """Where arrays lie.

    mesh: axis -> devices; data may be -1, the devices that are left.
    first: what is run first of a project, on a laptop.
    axes_legend, dims_legend: what each axis splits; what each letter of a dim means.
    batch_axes: those that split the batch.
    rows: the same, if no row of it depends on another; otherwise ().
    activations, moments: of activations, what the optimizer keeps of a parameter: name -> spec, as Python.
        The activations of an own class are named by the parameter that they are computed with.
    apart: path of a parameter that is stored as several -> its dim, and the size of each along it.
    rewritten: whether the layout is of the program in a form of its own.
    tiny_apart: the same of the preset tiny; None where its sizes are no others.
    tables: the specs of the parameters, of each model its own.
    saved: name of an activation that `remat` can save -> MB of a layer and an example, in words.
    padded: path -> the number that each dim is made a multiple of.
    divided: field of `Data` in config.py -> the axes whose devices must divide it.
    total, trained, total_per_device: parameters, in words: all, those that are trained, on a device.
    """

    mesh: Mapping[Name, int]
    first: FirstRuns
    axes_legend: Code
    dims_legend: Code
    batch_axes: tuple[Name, ...]
    rows: tuple[Name, ...]
    activations: Mapping[Text, Code]
    apart: Mapping[Text, tuple[int, tuple[int, ...]]]
    rewritten: bool
    tiny_apart: Mapping[Text, tuple[int, tuple[int, ...]]] | None
    tables: tuple[SpecTable, ...]
    moments: Mapping[Text, Code]
    saved: Mapping[Text, str]
    padded: Mapping[Text, tuple[int, ...]]
    divided: Mapping[Name, tuple[Name, ...]]
    total: str
    trained: str
    total_per_device: str

    @property
    def models(self) -> str:
        """The tables by their models, as Python; "" where there is one model."""
        pairs = [f'"{one.model}": {" | ".join(one.parts)}' for one in self.tables if one.model]
        return f"{{{', '.join(pairs)}}}" if pairs else ""


@dataclass(frozen=True)
class ProjectContext:
    """A project.

    package: its import name, which paths have too.
    stateful: whether its model holds more than parameters: random streams, running means.
    notes: what its user should know.
    requirements: the packages that its code imports, as pip has them.
    """

    package: Name
    request: Annotated[Request, checked("redco.toml")]
    model: ProjectModel
    recipe: ProjectRecipe
    layout: ProjectLayout
    stateful: bool
    notes: tuple[Text, ...]
    requirements: tuple[Text, ...]
