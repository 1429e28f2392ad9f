"""Draws answers of known lengths with a project's model on a CPU; prints a record of rollouts.py as JSON.

    python -m tables.rollouts_row PACKAGE QUESTIONS GROUP LENGTH ROOM, and lengths as JSON on stdin

Runs with the project's folder on the path.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from redco_runtime.nn.generate import generate

END = 0


class Ending:
    """A model whose answers end by chance, so that their lengths are distributed as those of a list.

    counted: rows and slots of each call of `decode` that ran, where it is not None.
    """

    def __init__(self, model: Any, lengths: np.ndarray, prompt: int, counted: Counter | None):
        self._model, self._prompt, self._counted = model, prompt, counted
        alive = np.array([(lengths >= t).sum() for t in range(1, lengths.max() + 1)])
        ends = np.array([(lengths == t).sum() for t in range(1, lengths.max() + 1)])
        odds = np.where(ends < alive, ends / np.maximum(alive - ends, 1), 1e9)
        self._log_odds_T = jnp.log(jnp.asarray(np.maximum(odds, 1e-12), jnp.float32))
        self.init_cache = model.init_cache

    def decode(self, ids_BS, positions_BS, mask_BT, cache, index):
        """Return what the model does; with the place of each token in the answer behind its features."""
        if self._counted is not None:
            rows, cost = len(ids_BS), {"tokens": ids_BS.size, "slots": mask_BT.size, "steps": 1}
            jax.debug.callback(lambda _: self._counted.update(cost), rows)
        x_BSD, cache = self._model.decode(ids_BS, positions_BS, mask_BT, cache, index)
        place_BS1 = (positions_BS - self._prompt + 1)[:, :, None].astype(x_BSD.dtype)
        return jnp.concatenate([x_BSD, place_BS1], axis=-1), cache

    def logits(self, x_BSD):
        """Return the model's, with that of END as the lengths have it."""
        logits_BSV = self._model.logits(x_BSD[..., :-1])
        place_BS = jnp.clip(x_BSD[..., -1].astype(jnp.int32), 0, len(self._log_odds_T) - 1)
        others_BS = jax.nn.logsumexp(logits_BSV.at[..., END].set(-jnp.inf), axis=-1)
        return logits_BSV.at[..., END].set(others_BS + self._log_odds_T[place_BS])


def measure(
    package: str, lengths: np.ndarray, questions: int, group: int, prompt: int, room: int
) -> None:
    """Print, of each way, tokens computed and slots read for a token of an answer, and the seconds of it."""
    module, config = (import_module(f"{package}.{name}") for name in ("model", "config"))
    answers = import_module(f"{package}.runtime.nn.answers")
    sizes = replace(config.TINY.model, embed_dim=64, num_layers=2, num_heads=4)
    sizes = replace(sizes, max_positions=prompt + room, dtype="float32")
    graph, params = nnx.split(module.GPT2(sizes, rngs=nnx.Rngs(0)))
    ids = np.random.default_rng(0).integers(1, 256, (questions, prompt), dtype=np.int32)

    def all_tokens(model, ids, key):
        """Compute every token of the room, and read a question for each of its answers."""
        ids = jnp.repeat(ids, group, axis=0)
        return generate(model, ids, ids > 0, max_new_tokens=room, temperature=1.0, key=key)

    def as_asked(model, ids, key):
        options = {"copies": group, "max_new_tokens": room, "temperature": 1.0, "key": key}
        return answers.draw_answers(model, ids, ids > 0, stop_ids=(END,), **options)

    for way, draw in (("before", all_tokens), ("after", as_asked)):
        found = Counter()
        for counted in (found, None):

            @jax.jit
            def run(params, ids, key, counted=counted, draw=draw):
                return draw(Ending(nnx.merge(graph, params), lengths, prompt, counted), ids, key)

            began = time.monotonic()
            tokens = np.asarray(run(params, ids, jax.random.key(0)))
            first = time.monotonic() - began
            jax.effects_barrier()
        began = time.monotonic()
        jax.block_until_ready(run(params, ids, jax.random.key(0)))
        seconds = time.monotonic() - began
        ended = (tokens == END).argmax(axis=1)
        useful = int(np.where((tokens == END).any(axis=1), ended + 1, room).sum())
        record = {"way": way, "useful": useful, "rows": len(tokens), "seconds": seconds}
        record |= {"compile": first - seconds, **found}
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    package, *sizes = sys.argv[1:]
    measure(package, np.array(json.load(sys.stdin)), *map(int, sizes))
