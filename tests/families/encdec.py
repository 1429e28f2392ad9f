"""What holds for every encoder-decoder: checks that the tests of each family call."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from families.decoders import check_config
from families.parity import TOLERANCE, Pair, logits, tokens
from redco_runtime.nn.beam import beam_search

B, S, T = 3, 20, 12


def source(pair: Pair, seed: int = 0) -> np.ndarray:
    return tokens(pair.model.full.sizes["vocab_size"], B, S, seed=seed)


def target(pair: Pair) -> np.ndarray:
    ids = tokens(pair.model.full.sizes["vocab_size"], B, T, seed=9)
    ids[:, 0] = pair.model.full.sizes["start_id"]
    return ids


def masks() -> dict[str, np.ndarray]:
    """Sources without padding, with it on the right, and with it on the left."""
    lengths, at = np.array([S, S - 7, 5])[:, None], np.arange(S)
    return {"none": at >= 0 * lengths, "right": at < lengths, "left": at >= S - lengths}


def check_forward(pair: Pair) -> None:
    """All logits, whatever is padding in the source; padding of the target changes none before."""
    model, x, y = pair.ours, source(pair), target(pair)
    forward = jax.jit(lambda x, mask, y: model(x, mask, y))
    for mask in masks().values():
        given = {"input_ids": x, "attention_mask": mask, "decoder_input_ids": y}
        np.testing.assert_allclose(forward(x, mask, y), logits(pair.torch, **given), atol=TOLERANCE)
    y_mask = np.arange(T) < np.array([T, 7, 3])[:, None]
    padded = given | {"decoder_attention_mask": y_mask}
    ours = np.asarray(forward(x, mask, np.where(y_mask, y, 0)))
    theirs = logits(pair.torch, **padded)
    np.testing.assert_allclose(ours[y_mask], theirs[y_mask], atol=TOLERANCE)


def check_cache(pair: Pair) -> None:
    """A target through the cache, some of it at once, then token by token, by layers that are apart."""
    model, x, y, mask = pair.ours, source(pair, seed=1), target(pair), masks()["left"]
    given = {"input_ids": x, "attention_mask": mask, "decoder_input_ids": y}
    decode, step = (jax.jit(one.decode) for one in (model, model.unstacked()))
    cache, parts = jax.jit(lambda: model.init_cache(model.encode(x, mask), T + 3))(), []
    for start, stop in ((0, 5), *((i, i + 1) for i in range(5, T))):
        run = step if start else decode
        h_BTD, cache = run(y[:, start:stop], mask, cache, start)
        parts.append(model.logits(h_BTD))
    theirs = logits(pair.torch, **given)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), theirs, atol=TOLERANCE)


def check_search(pair: Pair, new_tokens: int = 32, **options: Any) -> list[list[int]]:
    """Predictions are PyTorch's, token for token, for each padding and several ends. Returns them."""
    model, x, found = pair.ours, source(pair, seed=5), []
    special, options = model.config.special_ids, options | {"max_new_tokens": new_tokens}
    run = jax.jit(
        lambda mask, eos: beam_search(model, x, mask, **options, **special | {"eos_id": eos})
    )
    for mask in masks().values():
        first = theirs(pair, x, mask, 1, **options)
        end = Counter(sum(first, [])).most_common(1)[0][0]
        for eos, expected in ((1, first), (end, theirs(pair, x, mask, end, **options))):
            for row, other in zip(run(mask, eos).tolist(), expected, strict=True):
                length = [*row, eos].index(eos) + 1
                found.append(row[:length])
                assert row[:length] == other[:length]
                assert set(row[length:]) <= {special["pad_id"]}
    assert min(map(len, found)) < new_tokens
    return found


def theirs(
    pair: Pair, x: np.ndarray, mask: np.ndarray, eos: int, max_new_tokens: int, **options: Any
) -> list[list[int]]:
    """What PyTorch predicts."""
    special = pair.ours.config.special_ids
    forced = {k.replace("_id", "_token_id"): n for k, n in special.items() if "forced" in k}
    return pair.torch.generate(
        torch.tensor(x, dtype=torch.long),
        attention_mask=torch.tensor(mask, dtype=torch.long),
        do_sample=False,
        eos_token_id=eos,
        max_new_tokens=max_new_tokens,
        **options,
        **{key: token if token >= 0 else None for key, token in forced.items()},
    )[:, 1:].tolist()


def check_greedy(pair: Pair) -> None:
    """Greedy search, of tokens that differ."""
    assert len({*sum(check_search(pair, num_beams=1, early_stopping=True), [])}) > 10


def check_beam_search(pair: Pair, **settings: Any) -> None:
    """Beam search with 4 beams, of tokens that differ."""
    assert len({*sum(check_search(pair, num_beams=4, **settings), [])}) > 10


def check_bfloat16(pair: Pair) -> None:
    """Loss and every gradient are finite, and not all zero, in bfloat16."""
    x, y, mask = source(pair, seed=3), target(pair), masks()["right"]

    def loss(params):
        model = pair.merge(params, dtype="bfloat16", remat="everything_saveable")
        scores = model(x, mask, y[:, :-1]).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, 1:, None], axis=-1).mean()

    value, grads = jax.jit(jax.value_and_grad(loss))(pair.params)
    assert np.isfinite(value)
    for leaf in jax.tree.leaves(grads):
        assert leaf.dtype == jnp.float32 and jnp.isfinite(leaf).all() and jnp.abs(leaf).max() > 0


def check_all(pair: Pair) -> None:
    """Check what holds for every encoder-decoder, besides searches, which need weights of their own."""
    check_forward(pair)
    check_cache(pair)
    check_bfloat16(pair)
    check_config(pair)
