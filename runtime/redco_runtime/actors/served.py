"""Rollouts by a server, in the place of the project's own engine: weights out by a folder, answers in by their ids.

Process 0 asks, and all have the same answers: a server draws others each time, so that no two processes may ask.
Shape letters: B questions, S tokens of one, T of an answer, L of both, G answers.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from ..base.contracts import Steps, Weights
from ..base.messages import UserError, print_once
from ..base.files import is_bucket, remove_tree
from ..base.progress import PROGRESS
from ..base.state import ModelState, PyTree
from ..checkpoints.export import export, gather
from ..loop.branches import branch_of
from ..run.record import Run
from .completions import Answer, Drawing, Server
from .playing import Row

# Nats by which a token's log-probability differs on average, between the server and the trainer: rounding to 16 bits
# makes some hundredths, and a server that computes with other weights, or was asked something else, several.
MOST_APART = 1.0
POLICY = "policy"  # the branch that answers


class Drawn(NamedTuple):
    """What a server drew: answers, padded with what ends one, and the log-probability of each token."""

    tokens_BGT: np.ndarray
    log_prob_BGT: np.ndarray
    stale_B: np.ndarray  # optimizer steps between its weights and those of the round


def served(steps: Steps, run: Run, weights: Weights, pipeline: Any) -> Steps:
    """Return steps by which a server draws answers to questions: `steps` themselves where --rollouts names none.

    weights, pipeline: the project's. Raises UserError for settings that no server can have.
    """
    if not run.config.train.rollouts:
        return steps
    return replace(steps, predict=_Served(steps, run, weights, pipeline))


class _Served:
    """`predict` of steps, but for batches that are questions."""

    def __init__(self, steps: Steps, run: Run, weights: Weights, pipeline: Any) -> None:
        settings, config = run.config.train, run.config
        for name in ("rollout_deadline", "importance_cap"):
            if getattr(settings, name) <= 0:
                raise UserError(f"--{name.replace('_', '-')}: give a number above 0")
        if settings.stale_steps < 0:
            raise UserError("--stale-steps: give a number of 0 or more")
        self._server = Server(_url(settings.rollouts), settings.rollout_deadline)
        self._steps, self._config, self._weights = steps, config, weights
        where = settings.rollout_folder or run.workdir
        if is_bucket(where):
            todo = "give one that the server sees too"
            raise UserError(f"--rollout-folder: {where} is no folder: {todo}")
        self._folder = Path(where).absolute() / "served"
        ends = pipeline.encoder(config.data.tokenizer).ends(pipeline.STOP_IDS)
        self._drawing = Drawing(
            settings.group, settings.new_tokens, pipeline.TEMPERATURE, ends, config.model.vocab_size
        )
        self._rounds = 0
        self._handed: int | None = None  # the round whose weights the server has
        print_once(
            f"answers are drawn by {self._server.url}: once stopped, the run goes on, and with other answers"
        )

    def __call__(self, model: ModelState, batch: dict[str, jax.Array], key: jax.Array) -> PyTree:
        if batch.keys() != {"input_ids", "mask"}:
            return self._steps.predict(model, batch, key)
        PROGRESS.at("a rollout by the server")
        stale = self._hand_over(model)
        ids_BS, mask_BS = (gather(batch[name], ()) for name in ("input_ids", "mask"))
        B, G, T = len(ids_BS), self._drawing.group, self._drawing.new_tokens
        tokens_BGT = np.full((B, G, T), [*self._drawing.ends, 0][0], np.int32)
        log_prob_BGT = np.zeros((B, G, T), np.float32)
        if jax.process_index() == 0:
            prompts = [ids[mask].tolist() for ids, mask in zip(ids_BS, mask_BS, strict=True)]
            seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
            answers = self._server.draw(prompts, self._drawing, seed, f"round {self._handed}")
            _fill(answers, tokens_BGT, log_prob_BGT)
        arrays = multihost_utils.broadcast_one_to_all((tokens_BGT, log_prob_BGT))
        tokens_BGT, log_prob_BGT = map(np.asarray, arrays)
        self._rounds += 1
        return Drawn(tokens_BGT, log_prob_BGT, np.full(B, stale, np.float32))

    def _hand_over(self, model: ModelState) -> int:
        """Return how many optimizer steps the server's weights are behind, once it has newer ones where that is too many."""
        settings = self._config.train
        if self._handed is not None:
            stale: int = (self._rounds - self._handed) * settings.round_steps
            if stale <= settings.stale_steps:
                return stale
        folder = self._folder / str(self._rounds)
        if jax.process_index() == 0:
            remove_tree(folder, missing=True)  # of a run that was stopped
        lora = getattr(self._config, "lora", None)
        shapes, parameters = (branch_of(x, POLICY) for x in (self._steps.shapes, model.parameters))
        if lora:
            shapes, parameters = jax.eval_shape(lora.merge, shapes), lora.merge(parameters)
        dtype = self._config.model.dtype
        export(
            jax.tree.map(lambda x: x.astype(dtype), parameters),
            folder,
            self._weights.hf_config(self._config.model) | {"dtype": dtype},
            table=self._weights.tensors(self._config.model),
            shapes=shapes,
        )
        if jax.process_index() == 0:
            self._server.reload(folder)
            for other in self._folder.iterdir():
                if other != folder:
                    remove_tree(other, missing=True)
        self._handed = self._rounds
        return 0


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise UserError(f"--rollouts: {text!r} is no URL: give such as http://localhost:8000")
    return text.rstrip("/").removesuffix("/v1")


def _fill(
    answers: Sequence[Sequence[Answer]], tokens_BGT: np.ndarray, log_prob_BGT: np.ndarray
) -> None:
    for b, group in enumerate(answers):
        for g, (ids, log_probs) in enumerate(group):
            tokens_BGT[b, g, : len(ids)] = ids
            log_prob_BGT[b, g, : len(ids)] = log_probs


def drawn_by_server(
    rows: Sequence[Row], log_prob_BGL: np.ndarray, drawn: Drawn | np.ndarray
) -> list[Row]:
    """Return {"sampled": (G, L), "stale": ()} of each row: the log-probabilities that its tokens were drawn with.

    log_prob_BGL: those of the trainer, of the token after each; what the project drew itself, and answers that were put
    in the place of others, have these. Raises UserError where the server's are too far from them.
    """
    if not isinstance(drawn, Drawn):
        return [{"sampled": x, "stale": np.zeros((), np.float32)} for x in log_prob_BGL]
    sampled_BGL, places_BGL = log_prob_BGL.copy(), np.zeros(log_prob_BGL.shape, bool)
    for b, row in enumerate(rows):
        for g, answered_L in enumerate(row["answered"]):
            places = np.flatnonzero(answered_L)
            tokens = drawn.tokens_BGT[b, g, : len(places)]
            if np.array_equal(row["input_ids"][g, places], tokens):
                sampled_BGL[b, g, places - 1] = drawn.log_prob_BGT[b, g, : len(places)]
                places_BGL[b, g, places - 1] = True
    if places_BGL.any():
        apart = float(np.abs(sampled_BGL - log_prob_BGL)[places_BGL].mean())
        if not apart <= MOST_APART:
            what = f"its log-probabilities are {apart:.3g} nats from the trainer's, a token"
            todo = "it computes with other weights: let it see --rollout-folder by the same path"
            raise UserError(f"--rollouts: {what}: {todo}")
    stale = map(np.asarray, drawn.stale_B)
    return [{"sampled": x, "stale": y} for x, y in zip(sampled_BGL, stale, strict=True)]
