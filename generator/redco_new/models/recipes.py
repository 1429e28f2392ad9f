"""The kinds of training: what they need of a model, their pipelines, a batch to trace them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from redco_new.errors import RedcoError
from redco_new.models.family import CAUSAL, ENCODER_DECODER, IMAGES, MASKED, Family
from redco_new.render.execute import load_text
from redco_new.render.template import Template


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
class RecipeContext:
    """What the templates of a recipe print.

    package: import name of the project.
    tokenizer: Hugging Face id or folder, or "bytes".
    sequence_length: tokens of an example by default.
    routed: whether the loss has a part of the routers of experts.
    """

    package: str
    tokenizer: str
    sequence_length: int
    routed: bool


@dataclass(frozen=True)
class Recipe:
    """A folder of templates/recipes.

    needs: signatures of the model that its pipeline calls.
    words: for the README.
    example: (sizes of the model, sequence length) -> one example of its collate.
    tiny: section of config.py -> its fields that the tiny preset sets.
    train: further lines of the section `train`.
    packages: further ones that a project needs.
    runtime: folders of the runtime that its pipeline imports, and only projects like it have.
    """

    name: str
    needs: frozenset[str]
    words: Words
    example: Callable[[Mapping[str, Any], int], dict[str, Any]]
    tiny: Mapping[str, Mapping[str, Any]]
    train: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()

    def print_files(
        self, template: Template, package: str, tokenizer: str, sequence_length: int, routed: bool
    ) -> dict[str, str]:
        """Return the texts of "pipeline.py" and other files of the package, by their names.

        "data.py" is the section `data` of config.py, "data.md" one of the README, where it has one. Raises RedcoError.
        """
        context = RecipeContext(package, tokenizer, sequence_length, routed)
        return template.print_folder(f"recipes/{self.name}", context)


def _text(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    return {"input_ids": np.zeros(length, np.int32), "mask": np.ones(length, bool)}


def _chat(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    return _text(sizes, length) | {"learned": np.ones(length, bool)}


def _masked(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    return _text(sizes, length) | {"labels": np.zeros(length, np.int32)}


def _pair(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    target = np.zeros(length // 4, np.int32)  # as long as data.py.jinja says
    labels = {"labels": target, "label_mask": np.ones(len(target), bool)}
    return _text(sizes, length) | {"decoder_ids": target} | labels


def _image(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    drawn = ("circle", 0, 0)
    return {"image": (drawn, sizes["image_size"], sizes["num_channels"]), "label": 0}


TINY_TEXT: dict[str, dict[str, Any]] = {
    "data": {"tokenizer": "bytes", "sequence_length": 128},
    "optimizer": {"learning_rate": 3e-3, "warmup_steps": 20},
    "train": {"steps": 200, "batch_size": 16, "log_every": 1, "eval_every": 100, "save_every": 100},
}
TINY_PAIRS = TINY_TEXT | {"data": TINY_TEXT["data"] | {"target_length": 32}}
TINY_IMAGE = {
    "optimizer": {"learning_rate": 2e-3, "warmup_steps": 20},
    "train": TINY_TEXT["train"] | {"batch_size": 64},
}


def _scored(*best: str) -> tuple[str, ...]:
    return (
        "eval_examples: int = 64  # held-out examples that evaluate() in pipeline.py scores, at most",
        f"best: tuple[str, ...] = {best!r}  # scores whose best checkpoint is kept",
    )


_MANUAL = "on the language reference that ships with Python"
_FILES = "change `examples` in `pipeline.py`, or name text files with `--text-files a.txt b.txt`"

LM = Words(
    learns=_MANUAL,
    loss="the loss, which falls from about 6 to about 2",
    sample="a sample of text",
    prompt='"The "',
    predicts="continues a prompt",
    data="`--data 'texts/*.jsonl'`, see below, or change `examples` in `pipeline.py`",
)
SFT = Words(
    learns="to answer sums, as a chat",
    loss="the loss of the answers, which falls from about 6 to below 1",
    sample="the answer to a question",
    prompt='"What is 3 + 4?"',
    predicts="answers a question",
    data="`--data chats.jsonl`, see below, or change `examples` in `pipeline.py`",
)
MLM = Words(
    learns=_MANUAL,
    loss="the loss, which falls from about 6 to about 3",
    sample="a text with its gaps filled",
    prompt='"The [MASK] of the"',
    predicts="fills the gaps of a text",
    data=_FILES,
)
SEQ2SEQ = Words(
    learns="to repeat the first words of docstrings of Python's library",
    loss="the loss, which falls from about 6 to about 2, ROUGE scores",
    sample="what becomes of a source",
    prompt='"Return the name of the file."',
    predicts="writes the target of a source",
    data="change `examples` in `pipeline.py`, or give JSON lines of sources and targets with "
    "`--pairs-file FILE`",
)
IMAGE = Words(
    learns="to tell drawn shapes apart",
    loss="the loss, which falls from about 2 to about 1, the accuracy",
    sample="the class of two images",
    prompt="circle",
    predicts="names the class of an image: a file, or here a shape to draw",
    data="change `examples` in `pipeline.py`, or give a folder with one of .npy, .png or .jpg files "
    "for each class with `--image-folder DIR`",
)

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("lm", CAUSAL, LM, _text, TINY_TEXT, runtime=("text",)),
        Recipe(
            "sft",
            CAUSAL,
            SFT,
            _chat,
            TINY_TEXT,
            packages=("jinja2>=3.1",),
            runtime=("text", "chats"),
        ),
        Recipe(
            "seq2seq",
            ENCODER_DECODER,
            SEQ2SEQ,
            _pair,
            TINY_PAIRS,
            train=_scored("rouge2", "rougeL"),
            packages=("rouge-score>=0.1.2",),
        ),
        Recipe("mlm", MASKED, MLM, _masked, TINY_TEXT, _scored("accuracy")),
        Recipe("image", IMAGES, IMAGE, _image, TINY_IMAGE, _scored("accuracy")),
    )
}


def possible_recipes(family: Family) -> list[str]:
    """Return the recipes whose needs a family meets, its default first."""
    others = [name for name, recipe in RECIPES.items() if recipe.needs <= family.provides]
    return [*family.recipes, *(name for name in others if name not in family.recipes)]


def choose_recipe(family: Family, name: str, model: str) -> Recipe:
    """Return the recipe that `--recipe name` asks for; the default of the family where it is "".

    model: as --model has it, for messages.
    Raises RedcoError, which names those that are possible.
    """
    possible = possible_recipes(family)
    if name and name not in possible:
        kinds = "recipe" if len(possible) == 1 else "recipes"
        what = f"{model} is trained by the {kinds} {', '.join(possible)}"
        raise RedcoError("--recipe", what, f"leave it out, or choose {' or '.join(possible)}")
    return RECIPES[name or possible[0]]


def loss_and_batch(
    recipe: Recipe, pipeline: str, rows: int, sizes: Mapping[str, Any], length: int
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return loss(model, batch, rngs) of the text of a pipeline, and an abstract batch for it."""
    import jax

    module = load_text("pipeline.py", pipeline)
    row = module.collate([recipe.example(sizes, length)])
    batch = {name: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype) for name, x in row.items()}
    return module.loss, batch
