"""What pipeline.py of a project says: sizes, names and calls of the model, by recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from redco_new.request.own_class import Input
from redco_new.own.examples import (
    OF_CLASS,
    OF_LEVEL,
    UNRELATED,
    array_statements,
    dtype_source,
    input_kind,
)
from redco_new.own.recipes import OwnRecipe, Output, name_target


@dataclass(frozen=True)
class ClassifySource:
    """What templates/own/classify/pipeline.py.jinja prints.

    classes: how many there are
    target: the key of the labels in a batch
    call: of the model, with a batch
    has_level: whether examples need a level of their class, which arrays of numbers have
    arrays: for each input, the statements that put its array into an example
    """

    classes: int
    target: str
    call: str
    has_level: bool
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class RegressSource:
    """What templates/own/regress/pipeline.py.jinja prints.

    target: the key of the target in a batch
    shape: of the target of one example
    call: of the model, with a batch
    arrays: for each input, the statements that put its array into an example
    """

    target: str
    shape: tuple[int, ...]
    call: str
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class LmSource:
    """What templates/own/lm/pipeline.py.jinja prints.

    vocab_size: how many ids the logits are of
    length: of a sequence
    prompt_length: how many ids of an example predict() continues
    ids: the input that is continued
    ids_dtype: its dtype, as Python
    weights: an expression (B, S): which ids count
    id_count: an expression: how many ids of a batch on the host count
    call: of the model, with a batch
    next_call: of a copy of the model, with `ids_BS` for the ids
    arrays: for each other input, the statements that put its array into an example
    """

    vocab_size: int
    length: int
    prompt_length: int
    ids: str
    ids_dtype: str
    weights: str
    id_count: str
    call: str
    next_call: str
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class Seq2seqSource:
    """What templates/own/seq2seq/pipeline.py.jinja prints.

    vocab_size: how many ids examples have
    source: the input that is read
    source_length: how many ids it has
    source_dtype: its dtype, as Python
    target: the input that is predicted
    target_length: how many ids it has
    target_dtype: its dtype, as Python
    call: of the model, with a batch
    next_call: of a copy of the model, with `ids_BT` for the target
    arrays: for each other input, the statements that put its array into an example
    """

    vocab_size: int
    source: str
    source_length: int
    source_dtype: str
    target: str
    target_length: int
    target_dtype: str
    call: str
    next_call: str
    arrays: tuple[str, ...]


PipelineSource = ClassifySource | RegressSource | LmSource | Seq2seqSource


def pipeline_source(
    recipe: OwnRecipe, inputs: Mapping[str, Input], output: Output
) -> PipelineSource:
    """Return what the template of a recipe's pipeline prints."""
    return SOURCES[recipe.name](name_target(recipe, inputs), inputs, output.shape[1:])


def _classify_source(
    target: str, inputs: Mapping[str, Input], shape: tuple[int, ...]
) -> ClassifySource:
    """Return what pipeline.py of a classifier prints; `shape` is (classes,)."""
    return ClassifySource(
        classes=shape[0],
        target=target,
        call=_model_call(inputs),
        has_level=any(input_kind(x) == "numbers" for x in inputs.values()),
        arrays=array_statements(OF_CLASS, inputs),
    )


def _regress_source(
    target: str, inputs: Mapping[str, Input], shape: tuple[int, ...]
) -> RegressSource:
    """Return what pipeline.py of a regression prints; `shape` is that of the target."""
    return RegressSource(
        target=target,
        shape=shape,
        call=_model_call(inputs),
        arrays=array_statements(OF_LEVEL, inputs),
    )


def _lm_source(_: str, inputs: Mapping[str, Input], shape: tuple[int, ...]) -> LmSource:
    """Return what pipeline.py of a language model prints; `shape` is (S, vocabulary)."""
    ids = _id_inputs(inputs)[0]
    masks = [k for k, x in inputs.items() if input_kind(x) == "mask" and len(x.shape) == 1]
    rolled = f'jnp.roll(batch["{masks[0]}"], -1, axis=1).astype(jnp.float32)' if masks else ""
    return LmSource(
        vocab_size=shape[-1],
        length=shape[0],
        prompt_length=max(1, shape[0] // 2),  # as much to read as to write
        ids=ids,
        ids_dtype=dtype_source(inputs[ids]),
        weights=rolled or "jnp.ones(labels_BS.shape)",
        id_count=f'batch["{masks[0]}"].sum()' if masks else f'batch["{ids}"].size',
        call=_model_call(inputs),
        next_call=_model_call(inputs, model="copy", replaced={ids: "ids_BS"}),
        arrays=array_statements(UNRELATED, inputs, without=(ids,)),
    )


def _seq2seq_source(_: str, inputs: Mapping[str, Input], shape: tuple[int, ...]) -> Seq2seqSource:
    """Return what pipeline.py of an encoder and decoder prints; `shape` is (T, vocabulary)."""
    source, target = _id_inputs(inputs)[:2]
    return Seq2seqSource(
        vocab_size=min(shape[-1], inputs[source].below or shape[-1]),
        source=source,
        source_length=inputs[source].shape[0],
        source_dtype=dtype_source(inputs[source]),
        target=target,
        target_length=inputs[target].shape[0],
        target_dtype=dtype_source(inputs[target]),
        call=_model_call(inputs),
        next_call=_model_call(inputs, model="copy", replaced={target: "ids_BT"}),
        arrays=array_statements(UNRELATED, inputs, without=(source, target)),
    )


SOURCES: Mapping[str, Callable[[str, Mapping[str, Input], tuple[int, ...]], PipelineSource]] = {
    "classify": _classify_source,
    "regress": _regress_source,
    "lm": _lm_source,
    "seq2seq": _seq2seq_source,
}


def _model_call(
    inputs: Mapping[str, Input], model: str = "model", replaced: Mapping[str, str] | None = None
) -> str:
    """Return a call of `model` with the inputs of `batch`, some of them `replaced`: input -> Python."""
    values = {name: f'batch["{name}"]' for name in inputs} | dict(replaced or {})
    return f"{model}({', '.join(f'{name}={value}' for name, value in values.items())})"


def _id_inputs(inputs: Mapping[str, Input]) -> list[str]:
    """Return the names of the inputs that are ids (B, S), in their order."""
    return [name for name, x in inputs.items() if x.below and len(x.shape) == 1]
