"""What pipeline.py of a project says: sizes, names and calls of the model, by recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from redco_new.request.own_class import Input
from redco_new.own.contents import Content, dtype_source
from redco_new.own.examples import OF_CLASS, OF_LEVEL, UNRELATED, array_statements
from redco_new.own.recipes import OwnRecipe
from redco_new.render.values import Code


@dataclass(frozen=True)
class ClassifySource:
    """What templates/own/classify/pipeline.py.jinja prints.

    classes: how many there are
    target: the key of the labels in a batch
    call: of the model, with a batch
    has_level: whether examples need a level of their class, which arrays of numbers have
    setup: statements before examples are made
    arrays: for each input, the statements that put its array into an example
    """

    classes: int
    target: Code
    call: Code
    has_level: bool
    setup: tuple[Code, ...]
    arrays: tuple[Code, ...]


@dataclass(frozen=True)
class RegressSource:
    """What templates/own/regress/pipeline.py.jinja prints.

    target: the key of the target in a batch
    shape: of the target of one example
    call: of the model, with a batch
    setup: statements before examples are made
    arrays: for each input, the statements that put its array into an example
    """

    target: Code
    shape: tuple[int, ...]
    call: Code
    setup: tuple[Code, ...]
    arrays: tuple[Code, ...]


@dataclass(frozen=True)
class LmSource:
    """What templates/own/lm/pipeline.py.jinja prints.

    words: how many ids examples have
    length: of a sequence
    prompt_length: how many ids of an example predict() continues
    ids: the input that is continued
    ids_dtype: its dtype, as Python
    weights: an expression (B, S): which ids count
    id_count: an expression: how many ids of a batch on the host count
    call: of the model, with a batch
    next_call: of a copy of the model, with `ids_BS` for the ids
    setup: statements before examples are made
    arrays: for each other input, the statements that put its array into an example
    """

    words: int
    length: int
    prompt_length: int
    ids: Code
    ids_dtype: Code
    weights: Code
    id_count: Code
    call: Code
    next_call: Code
    setup: tuple[Code, ...]
    arrays: tuple[Code, ...]


@dataclass(frozen=True)
class Seq2seqSource:
    """What templates/own/seq2seq/pipeline.py.jinja prints.

    words: how many ids examples have
    source: the input that is read
    source_length: how many ids it has
    source_dtype: its dtype, as Python
    target: the input that is predicted
    target_length: how many ids it has
    target_dtype: its dtype, as Python
    call: of the model, with a batch
    next_call: of a copy of the model, with `ids_BT` for the target
    setup: statements before examples are made
    arrays: for each other input, the statements that put its array into an example
    """

    words: int
    source: Code
    source_length: int
    source_dtype: Code
    target: Code
    target_length: int
    target_dtype: Code
    call: Code
    next_call: Code
    setup: tuple[Code, ...]
    arrays: tuple[Code, ...]


PipelineSource = ClassifySource | RegressSource | LmSource | Seq2seqSource


@dataclass(frozen=True)
class Examples:
    """What a pipeline makes up, and learns.

    inputs: of a call
    contents: what examples have in each input
    target: the key of the target in a batch; "" if there is none
    shape: of the output of one example
    setup: the statements that bring the arrays of the user's function, if some are not printed
    selector: Python that takes the output that is trained out of what a call gives, or ""
    """

    inputs: Mapping[str, Input]
    contents: Mapping[str, Content]
    target: str
    shape: tuple[int, ...]
    setup: tuple[str, ...]
    selector: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The inputs that have ids which vary: in a recipe of texts, those that are learned."""
        return tuple(name for name, content in self.contents.items() if content.kind == "ids")

    def statements(
        self, by_kind: Mapping[str, str], without: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """Return the statements that put each input but for `without` into an example."""
        return array_statements(by_kind, self.inputs, self.contents, without)

    def call(self, model: str = "model", replaced: Mapping[str, str] | None = None) -> str:
        """Return a call of `model` with the inputs of `batch`, some `replaced`: input -> Python."""
        values = {name: f'batch["{name}"]' for name in self.inputs} | dict(replaced or {})
        arguments = ", ".join(f"{name}={value}" for name, value in values.items())
        return f"{model}({arguments}){self.selector}"


def pipeline_source(recipe: OwnRecipe, examples: Examples) -> PipelineSource:
    """Return what the template of a recipe's pipeline prints."""
    return SOURCES[recipe.name](examples)


def _classify_source(examples: Examples) -> ClassifySource:
    """Return what pipeline.py of a classifier prints; the output is (classes,)."""
    return ClassifySource(
        classes=examples.shape[0],
        target=examples.target,
        call=examples.call(),
        setup=examples.setup,
        has_level=any(content.kind == "numbers" for content in examples.contents.values()),
        arrays=examples.statements(OF_CLASS),
    )


def _regress_source(examples: Examples) -> RegressSource:
    """Return what pipeline.py of a regression prints; the output is of the target's shape."""
    return RegressSource(
        target=examples.target,
        shape=examples.shape,
        call=examples.call(),
        setup=examples.setup,
        arrays=examples.statements(OF_LEVEL),
    )


def _lm_source(examples: Examples) -> LmSource:
    """Return what pipeline.py of a language model prints; the output is (S, vocabulary)."""
    (ids,) = examples.texts
    weights, id_count = _counting(examples, ids)
    return LmSource(
        words=examples.contents[ids].below,
        length=examples.shape[0],
        prompt_length=max(1, examples.shape[0] // 2),  # as much to read as to write
        ids=ids,
        ids_dtype=dtype_source(examples.inputs[ids]),
        weights=weights,
        id_count=id_count,
        call=examples.call(),
        next_call=examples.call(model="copy", replaced={ids: "ids_BS"}),
        setup=examples.setup,
        arrays=examples.statements(UNRELATED, without=(ids,)),
    )


def _counting(examples: Examples, ids: str) -> tuple[str, str]:
    """Return Python for which ids count, of labels_BS, and how many of a batch do."""
    masks = [(name, x.counts) for name, x in examples.contents.items() if x.counts]
    if not masks:
        return "jnp.ones(labels_BS.shape)", f'batch["{ids}"].size'
    name, counts = masks[0]
    rolled = f'jnp.roll(batch["{name}"], -1, axis=1)'
    if counts == "zeros":
        return f"({rolled} == 0).astype(jnp.float32)", f'(batch["{name}"] == 0).sum()'
    return f"{rolled}.astype(jnp.float32)", f'batch["{name}"].sum()'


def _seq2seq_source(examples: Examples) -> Seq2seqSource:
    """Return what pipeline.py of an encoder and decoder prints; the output is (T, vocabulary)."""
    source, target = examples.texts
    return Seq2seqSource(
        words=min(examples.contents[name].below for name in examples.texts),
        source=source,
        source_length=examples.inputs[source].shape[0],
        source_dtype=dtype_source(examples.inputs[source]),
        target=target,
        target_length=examples.inputs[target].shape[0],
        target_dtype=dtype_source(examples.inputs[target]),
        call=examples.call(),
        next_call=examples.call(model="copy", replaced={target: "ids_BT"}),
        setup=examples.setup,
        arrays=examples.statements(UNRELATED, without=(source, target)),
    )


SOURCES: Mapping[str, Callable[[Examples], PipelineSource]] = {
    "classify": _classify_source,
    "regress": _regress_source,
    "lm": _lm_source,
    "seq2seq": _seq2seq_source,
}
