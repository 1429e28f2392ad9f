"""A kind of training: what it needs of a model, its pipeline, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from redco_new.errors import RedcoError
from redco_new.models.branches import Branch
from redco_new.models.recipes.defaults import ADAPTER, NEW, SMOOTHING, Rate, Setting, scored
from redco_new.render.template import Template
from redco_new.render.values import Name


@dataclass(frozen=True)
class Words:
    """What the README of a project says of its recipe.

    learns: what the tiny preset is trained on.
    loss: how that goes.
    sample: what is shown before and after.
    prompt: of predict.py, for a shell.
    predicts: what predict.py does.
    data: how to give one's own.
    """

    learns: str
    loss: str
    sample: str
    prompt: str
    predicts: str
    data: str


@dataclass(frozen=True)
class Figure:
    """What the preset tiny reaches as it is: `make table NAME=recipes` measures it.

    name: a key of eval.jsonl.
    least, most: the bound of its last value, one of the two.
    baseline: what reaches less, and how much, for people.
    """

    name: str
    least: float | None = None
    most: float | None = None
    baseline: str = ""

    @property
    def bound(self) -> dict[str, float]:
        """The one of `least` and `most` that there is."""
        bounds = {"least": self.least, "most": self.most}
        return {name: bound for name, bound in bounds.items() if bound is not None}


@dataclass(frozen=True)
class OwnModel:
    """The model that a recipe brings, in the model.py of its folder; its user owns it.

    title: for people.
    name: its class; that of its config has Config behind, whose fields are all plain data with a default.
    """

    title: str
    name: str

    @property
    def config_class(self) -> str:
        """The config class that model.py defines."""
        return f"{self.name}Config"


@dataclass(frozen=True)
class RecipeContext:
    """What the templates of a recipe print.

    package: import name of the project.
    routed: whether the loss has a part of the routers of experts.
    adapted: whether what is trained is an adapter.
    causal: whether a token of its model sees only those before it.
    head_rate: the field of `model` by whose rate the input of its head drops; "" where none does.
    features: the field of `model` that is how many numbers a token's hidden state has.
    loss: which one it learns by, of a recipe that has several.
    served: whether a server may draw its answers.
    """

    package: Name
    routed: bool
    adapted: bool
    causal: bool
    head_rate: str
    features: Name
    loss: str
    served: bool


@dataclass(frozen=True)
class Recipe:
    """A folder of templates/recipes.

    folder: its name, where that is not the recipe's.
    loss: the one of `losses` that it is; "" where there are none.
    losses: name -> the recipe by another loss, for --loss: its model, settings and words may be others.
    with_features: name of a feature -> the recipe of a project that has it, where that is another one.

    title: what it is, in a line.
    source: what it learns from where its user names no data, in a line.
    model: a family that it is tried with, or the model that it brings.
    figure: what its preset tiny reaches.
    needs: signatures of the model that its pipeline calls.
    also: those of another kind of model, for which its pipeline is printed otherwise; none for one kind.
    words: for the README.
    example: (sizes of the model, sequence length) -> one example of its collate.
    tiny: section of config.py -> its fields that the tiny preset sets.
    train: further settings of the section `train`.
    packages: further ones that a project needs.
    whole_batch: whether the loss of a row depends on the other rows of its batch, or on what is drawn for them all.
    branches: its models, where `Models` in its pipeline.py has several; the one that is exported first.
    head: the layers that its pipeline.py puts on the model, in the place of the one for words, and says what files
        call; () for none.
    also_head: those that it puts on the other kind of model.
    classes: the layers of the model itself that say what classes the data has; () for none. Beside an adapter they are
        trained in full too.
    task: what PEFT calls that of an adapter, where it is not that of the model's family.
    pictures: whether its examples are pictures, which may be read of a folder.
    teacher: whether one of them can be trained before the others, by train.py.
    actors: whether the model makes its examples, by a rollout before each round of steps.
    system: whether what it answers may have a system message before it, which predict.py then takes.
    served: whether a server may draw its answers: the feature `rollouts`.
    terms: whether its loss has terms besides the first one, in a dict.
    rate, adapter_rate: the learning rate by default: of all parameters, of an adapter.
    smooths: whether its loss is the cross-entropy of labels, which --label-smoothing can smooth.
    drops: whether a model may drop in training: its loss compares nothing with what a model says.
    perplexity: whether its loss is nats a token, which have one.
    writes: whether it writes texts, token by token.
    prompt_fields: keys that a row of a file of prompts may have it under; (): the row is the prompt.
    order: place among the recipes that `redco recipes` lists; by name where it is the same.
    """

    name: str
    title: str
    source: str
    model: str | OwnModel
    figure: Figure
    needs: frozenset[str]
    words: Words
    example: Callable[[Mapping[str, Any], int], dict[str, Any]]
    tiny: Mapping[str, Mapping[str, Any]]
    folder: str = ""
    loss: str = ""
    losses: Mapping[str, Recipe] = field(default_factory=dict)
    with_features: Mapping[str, Recipe] = field(default_factory=dict)
    also: frozenset[str] = frozenset()
    train: tuple[Setting, ...] = ()
    packages: tuple[str, ...] = ()
    whole_batch: bool = False
    branches: tuple[Branch, ...] = ()
    head: tuple[str, ...] = ()
    also_head: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    task: str = ""
    pictures: bool = False
    teacher: bool = False
    actors: bool = False
    system: bool = False
    served: bool = False
    terms: bool = False
    rate: Rate = NEW
    adapter_rate: Rate = ADAPTER
    smooths: bool = False
    drops: bool = False
    perplexity: bool = False
    writes: bool = False
    prompt_fields: tuple[str, ...] = ("prompt",)
    order: int = 1000

    @property
    def data(self) -> str:
        """Whose section `data` config.py has, of templates/recipes/shared/data."""
        return self.folder or self.name

    def takes(self, provides: frozenset[str]) -> bool:
        """Return whether it can train a model with these signatures."""
        return any(needs <= provides for needs in (self.needs, self.also or self.needs))

    def head_of(self, provides: frozenset[str]) -> tuple[str, ...]:
        """Return the layers that it puts on a model with these signatures."""
        return self.head if self.needs <= provides else self.also_head

    def beside_adapter(self, provides: frozenset[str]) -> tuple[str, ...]:
        """Return the layers that are trained in full beside an adapter of a model with these signatures."""
        return self.head_of(provides) or self.classes

    @property
    def named(self) -> bool:
        """Whether config.py names the classes that its model tells apart."""
        return bool(self.classes) or any(one.name == "labels" for one in self.train)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The further settings of the section `train`, and those of scores, also where its user writes evaluate()."""
        scored_already = any(one.name == "best" for one in self.train)
        scores = () if scored_already else scored()
        return (*self.train, *scores, *((SMOOTHING,) if self.smooths else ()))

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of its further settings."""
        return {one.name: one.default for one in self.train}

    @property
    def maker(self) -> str:
        """The function of its pipeline.py that makes what is trained, of a model's class; "" for that class."""
        if self.head:
            return "with_head"
        return "Models" if self.branches else ""

    @property
    def create(self) -> tuple[str, ...]:
        """The arguments of redco-new that create a project of it."""
        model = ("--model", self.model) if isinstance(self.model, str) else ()
        return (f"my-{self.name}", "--recipe", self.name, *model)

    def by(self, loss: str) -> Recipe:
        """Return it by that loss; by its own where none is asked for. Raises RedcoError."""
        if loss in ("", self.loss):
            return self
        if loss not in self.losses:
            what = f"the recipe {self.name} has no loss {loss!r}"
            names = ", ".join(name for name in (self.loss, *self.losses) if name)
            raise RedcoError("--loss", what, f"choose one of {names}" if names else "leave it out")
        return self.losses[loss]

    def having(self, features: Collection[str]) -> Recipe:
        """Return it as a project with these features has it."""
        others = [self.with_features[name] for name in features if name in self.with_features]
        return others[0] if others else self

    def adapted(self) -> Recipe:
        """Return it where it can train an adapter: beside no second model. Raises RedcoError."""
        if len([branch for branch in self.branches if not (branch.base or branch.scores)]) > 1:
            what = f"the recipe {self.name} trains beside a second model, and no adapter"
            raise RedcoError("--lora", what, "leave it out, or choose another --recipe")
        return self

    def print_files(
        self,
        template: Template,
        package: str,
        routed: bool,
        adapted: bool = False,
        causal: bool = False,
        head_rate: str = "",
        features: str = "embed_dim",
    ) -> dict[str, str]:
        """Return the texts of "pipeline.py" and other files of the package, by their names. Raises RedcoError."""
        facts = (package, routed, adapted, causal, head_rate, features)
        context = RecipeContext(*facts, self.loss, self.served)
        return template.print_folder(f"recipes/{self.folder or self.name}", context)
