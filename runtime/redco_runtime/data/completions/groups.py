"""Answers to a question that a model drew: their rows, their rewards, and how they compare.

Shape letters: B questions, S tokens of one, T of an answer, L of both, G answers.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base.examples import Arrays
from ...base.messages import UserError, shown
from ..chats.encoding import ChatEncoder

FLOOR = 1e-4  # of a deviation: answers that all get the same teach nothing


def answer_room(length: int, new_tokens: int) -> int:
    """Return S, where L is `length` and T is `new_tokens`. Raises UserError where nothing is left."""
    if not 0 < new_tokens < length:
        raise UserError(
            f"--new-tokens: {new_tokens} of --sequence-length {length}: give 1 at least, and leave a question room"
        )
    return length - new_tokens


def answer_rows(question: Arrays, tokens_GT: np.ndarray, ends: Sequence[int]) -> Arrays:
    """Return {"input_ids": (G, L), the question and an answer; "answered": (G, L) bool, what is of the latter}.

    question: "input_ids" and "mask", each (S,). ends: ids that end an answer, and are of it; the rest is padding.
    """
    ids_S = question["input_ids"][question["mask"]]
    (G, T), S = tokens_GT.shape, len(question["mask"])
    over_GT = np.cumsum(np.isin(tokens_GT, ends), axis=1) - np.isin(tokens_GT, ends) > 0
    ids_GL, answered_GL = np.zeros((G, S + T), np.int32), np.zeros((G, S + T), bool)
    ids_GL[:, : len(ids_S)] = ids_S
    ids_GL[:, len(ids_S) : len(ids_S) + T] = np.where(over_GT, 0, tokens_GT)
    answered_GL[:, len(ids_S) : len(ids_S) + T] = ~over_GT
    return {"input_ids": ids_GL, "answered": answered_GL}


def put_first(tokens_BGT: np.ndarray, answers: Sequence[str], encoder: ChatEncoder) -> np.ndarray:
    """Return tokens_BGT with the right answer to each question in the place of the first (Yan et al. 2025).

    It is cut where there is no room for all of it. Raises UserError for an answer that is no text.
    """
    tokens_BGT = tokens_BGT.copy()
    for tokens_GT, answer in zip(tokens_BGT, answers, strict=True):
        if not isinstance(answer, str):
            raise UserError(
                f"--guided: an answer is no text, {shown(answer)}, and cannot be one of the group: give "
                "--guided false, or the key of a text, --answer-field"
            )
        ids = encoder.tokenizer(answer, add_special_tokens=False)["input_ids"]
        ids = [*ids, *encoder.ends()[:1]][: tokens_GT.shape[1]]
        tokens_GT[0, : len(ids)] = ids
    return tokens_BGT


def reward_answers(
    reward: Callable[[str, Any, str], Any],
    examples: Sequence[Mapping[str, Any]],
    texts: Sequence[Sequence[str]],
) -> np.ndarray:
    """Return rewards (B, G), float32, of the answers to each question; 0 of those to prompts, whose answer nobody knows.

    reward: of a question, its answer, and a text. texts: G to each. Raises UserError where one is no finite number.
    """
    rows = []
    for one, answers in zip(examples, texts, strict=True):
        if "answer" in one:
            rows.append(score_answers(partial(reward, one["question"], one["answer"]), answers))
        else:
            rows.append(np.zeros(len(answers), np.float32))
    return np.stack(rows)


def score_answers(reward: Callable[[str], Any], texts: Sequence[str]) -> np.ndarray:
    """Return rewards (G,), float32. Raises UserError where one is no finite number."""
    rewards = []
    for text in texts:
        try:
            value = reward(text)
        except UserError:
            raise
        except Exception as error:
            raise UserError(_failure(reward, text, error)) from error
        if not np.isscalar(value) or isinstance(value, str | bytes) or not np.isfinite(value):
            what = f"it gives {value!r} for the answer {text[:40]!r}"
            raise UserError(f"{_name(reward)}() in pipeline.py: {what}: give a finite number")
        rewards.append(value)
    return np.array(rewards, np.float32)


def _name(reward: Any) -> str:
    return getattr(getattr(reward, "func", reward), "__name__", "reward")


def _failure(reward: Any, text: str, error: Exception) -> str:
    """Return a line of what a reward fails for, and where in the code of the user."""
    names = "question", "right answer"
    facts = [f"{x} {shown(y)}" for x, y in zip(names, getattr(reward, "args", ()), strict=False)]
    line = f"{_name(reward)}() in pipeline.py fails for {', '.join([f'answer {shown(text)}', *facts])}:"
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[1:])
    return "\n".join([line, "".join(frames).rstrip(), f"{type(error).__name__}: {error}"])


def advantages(rewards_G: np.ndarray, deviation: str = "population") -> np.ndarray:
    """Return how many deviations each reward is above the mean of its group (Shao et al. 2024): (G,).

    deviation: "sample", of G - 1, as TRL's; "population", of G.
    """
    degrees = 1 if deviation == "sample" else 0
    return (rewards_G - rewards_G.mean()) / (rewards_G.std(ddof=degrees) + FLOOR)
