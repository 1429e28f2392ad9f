"""A model of rewards, of the recipe `reward`, by which the answers of a policy are judged. It stays as it is.

It reads chats as text, by its own tokenizer and template, as `predict` of its project does.
Shape letters: G answers to a question, S tokens of a chat, B questions.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import jax
import numpy as np
from flax import nnx

from ..base.examples import Arrays
from ..base.messages import UserError
from ..base.files import path_of
from ..data.chats.encoding import PROBE, ChatEncoder
from ..data.chats.reading import Chat, as_messages
from ..data.tokenizer import lacks_tokenizer, load_tokenizer
from ..nn.heads.scores import SCORE, ScoreWeights, score_last, with_score
from ..run.record import FILE, decode, is_placing, read
from .branches import Head


def reward_model(model_class: Any, config: Any, rngs: nnx.Rngs) -> nnx.Module:
    """Return the model of `--reward-model`, of random numbers. Raises UserError where it is of another family."""
    sizes = sizes_of(config)
    model: nnx.Module = model_class(sizes, rngs=rngs)
    scored: nnx.Module = with_score(model, features=sizes.embed_dim, labels=1, rngs=rngs)
    return scored


def reward_start(config: Any) -> dict[str, Any]:
    """Return what it starts from, as `Starts` of loop.branches; {} where a run names none."""
    source = config.train.reward_model
    head = Head("--reward-model", _with_score, (f"{SCORE}/kernel",))
    return {"reward_model": (source, sizes_of(config), head)} if source else {}


def _with_score(weights: Any) -> Any:
    """Return what files call its parameters, from what they call those of the policy, frozen beside an adapter or not."""
    if is_dataclass(weights):
        frozen: Any = weights
        return replace(frozen, weights=_with_score(frozen.weights))
    return ScoreWeights(weights, labels=1)


def sizes_of(config: Any) -> Any:
    """Return its sizes: those that its run recorded; of exported files, which are compared with them, the policy's."""
    source, own = config.train.reward_model, config.model
    if not (record := _recorded(source)):
        return own
    there = {name: x for name, x in record["model"].items() if not is_placing(name)}
    names = {name for name in vars(own) if not is_placing(name)}
    try:
        if there.keys() != names:
            raise ValueError(f"it has not the sizes {', '.join(sorted(there.keys() ^ names))}")
        return decode(type(own), there)
    except (TypeError, ValueError) as error:
        family = type(own).__name__.removesuffix("Config")
        raise UserError(
            f"--reward-model: {source} is of another family than {family}, or of another redco: {error}: give the run of a "
            "project of this --model with --recipe reward, or what it exports"
        ) from None


def chat_rows(
    config: Any, examples: Sequence[Mapping[str, Any]], texts: Sequence[Sequence[str]]
) -> list[Arrays]:
    """Return a row for each example, of its question with each answer: "chats" (G, S) and "chats_mask".

    texts: the answers to each. Raises UserError for a chat of more tokens than the model of rewards learned from.
    """
    name, length = _tokenizer(config), _length(config)
    return [_row(name, length, one, answers) for one, answers in zip(examples, texts, strict=True)]


def _row(name: str, length: int, example: Mapping[str, Any], answers: Sequence[str]) -> Arrays:
    ids_GS = np.zeros((len(answers), length), np.int32)
    mask_GS = np.zeros(ids_GS.shape, bool)
    question = example.get("messages") or as_messages(example["question"], "user")
    for place, text in enumerate(answers):
        answer = {"role": "assistant", "content": text}
        try:
            ids, _ = _encoder(name)(Chat([*question, answer], len(question), example.get("tools")))
        except ValueError as error:
            raise UserError(f"--reward-model: a question with its answer {error}") from None
        if len(ids) > length:
            raise UserError(
                f"--reward-model: a question with its answer has {len(ids)} tokens by its tokenizer, more than the {length} "
                "of its --sequence-length; of an export, of this run's: give fewer --new-tokens, or a longer one there"
            )
        ids_GS[place, : len(ids)], mask_GS[place, : len(ids)] = ids, True
    return {"chats": ids_GS, "chats_mask": mask_GS}


def reward_chats(model: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
    """Return rewards_BG, float32, of a batch of `chat_rows`: what the model makes of the last token of each."""
    B, G, S = batch["chats"].shape
    ids_RS, mask_RS = (batch[name].reshape(B * G, S) for name in ("chats", "chats_mask"))
    return score_last(model, ids_RS, mask_RS).reshape(B, G)


def _tokenizer(config: Any) -> str:
    """Return the name of its tokenizer: the policy's for files that have none."""
    source, own = config.train.reward_model, config.data.tokenizer
    if record := _recorded(source):
        return str(record["data"]["tokenizer"])
    return own if lacks_tokenizer(source) else source


def _length(config: Any) -> int:
    """Return S: that of its run; of files, the policy's, and what a template writes around two texts."""
    if record := _recorded(config.train.reward_model):
        return int(record["data"]["sequence_length"])
    around, _ = _encoder(_tokenizer(config))(PROBE)
    return int(config.data.sequence_length) + len(around)


@functools.cache
def _encoder(name: str) -> ChatEncoder:
    return ChatEncoder(load_tokenizer(name))


@functools.cache
def _recorded(source: str) -> dict[str, Any]:
    """Return the configuration of a run, by its folder or that of its checkpoints; {} of anything else."""
    folder = path_of(source)
    folder = folder.parent if folder.name == "checkpoints" else folder
    return read(folder / FILE)["config"] if (folder / FILE).exists() else {}
