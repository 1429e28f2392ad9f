"""What holds for every causal decoder: checks that the tests of each family call."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import torch
from redco_runtime.nn.generate import generate
from families.parity import TOLERANCE, Pair, logits, tokens

B, S = 3, 24


def lengths() -> np.ndarray:
    return np.array([S, S - 7, 5])


def ids(pair: Pair, seed: int = 0) -> np.ndarray:
    return tokens(pair.model.full.sizes["vocab_size"], B, S, seed=seed)


def check_forward(pair: Pair) -> None:
    """All logits of full rows, and those of rows padded on the right."""
    x = ids(pair)
    ours = np.asarray(pair.ours.logits(pair.ours.hidden(x)))
    np.testing.assert_allclose(ours, logits(pair.torch, input_ids=x), atol=TOLERANCE)
    mask = np.arange(S) < lengths()[:, None]
    theirs = logits(pair.torch, input_ids=x, attention_mask=mask)
    np.testing.assert_allclose(ours[mask], theirs[mask], atol=TOLERANCE)


def check_packed(pair: Pair) -> None:
    """Texts packed in a row: each has the hidden states that it has in a row of its own."""
    x, cuts = ids(pair), np.array([0, 10, 11, S])
    alone, segments = np.asarray(pair.ours.hidden(x)), np.repeat([[1, 2, 5]], np.diff(cuts), axis=1)
    row = np.concatenate([x[i, : stop - start] for i, (start, stop) in enumerate(pairwise(cuts))])
    packed = np.asarray(pair.ours.hidden(row[None], segments))[0]
    for i, (start, stop) in enumerate(pairwise(cuts)):
        np.testing.assert_allclose(packed[start:stop], alone[i, : stop - start], atol=TOLERANCE)


def check_cache(pair: Pair) -> None:
    """Rows padded on the left, through the cache: a prompt at once, then token by token, by layers that are apart."""
    x, prompt = ids(pair, seed=1), S - 6
    mask = np.arange(S) >= S - lengths()[:, None]
    positions = np.maximum(mask.cumsum(1) - 1, 0).astype(np.int32)
    theirs = logits(pair.torch, input_ids=x, attention_mask=mask, position_ids=positions)
    model = pair.ours
    decode, step = (jax.jit(one.decode) for one in (model, model.unstacked()))
    h, cache = decode(x[:, :prompt], positions[:, :prompt], mask, model.init_cache(B, S), 0)
    parts = [model.logits(h)]
    for i in range(prompt, S):
        h, cache = step(x[:, i : i + 1], positions[:, i : i + 1], mask, cache, i)
        parts.append(model.logits(h))
    ours = np.concatenate(parts, axis=1)
    np.testing.assert_allclose(ours[mask], theirs[mask], atol=TOLERANCE)


def check_greedy(pair: Pair, new_tokens: int = 32) -> None:
    """Greedy generation of a batch of prompts of several lengths, token for token."""
    x, prompts = ids(pair, seed=2)[:, :12], np.array([12, 7, 3])
    right = np.arange(12) < prompts[:, None]
    left = np.arange(12) >= 12 - prompts[:, None]
    shifted = np.zeros_like(x)
    shifted[left] = x[right]
    theirs = pair.torch.generate(
        torch.tensor(shifted.astype(np.int64)),
        attention_mask=torch.tensor(left.astype(np.int64)),
        max_new_tokens=new_tokens,
        min_new_tokens=new_tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )[:, 12:].numpy()
    ours = jax.jit(
        lambda x, mask: generate(
            pair.ours, x, mask, max_new_tokens=new_tokens, temperature=0.0, key=jax.random.key(0)
        )
    )(x, right)
    np.testing.assert_array_equal(np.asarray(ours), theirs)


def check_bfloat16(pair: Pair) -> None:
    """Loss and every gradient are finite, and not all zero, in bfloat16."""
    x = ids(pair, seed=3)

    def loss(params):
        model = pair.merge(params, dtype="bfloat16")
        scores = model.logits(model.hidden(x[:, :-1])).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), x[:, 1:, None], axis=-1).mean()

    value, grads = jax.jit(jax.value_and_grad(loss))(pair.params)
    assert np.isfinite(value)
    for leaf in jax.tree.leaves(grads):
        assert np.isfinite(np.asarray(leaf, np.float32)).all() and np.any(leaf)


def check_config(pair: Pair) -> None:
    """config.json as it is exported makes the same transformers config."""
    written = pair.weights.hf_config(pair.config())
    assert written["architectures"] == [pair.model.family.architecture]
    again = type(pair.torch.config).from_dict(written)
    left_out = ("architectures", "_name_or_path", "dtype", "transformers_version")
    one, two = ({k: v for k, v in c.to_dict().items() if k not in left_out}
                for c in (pair.torch.config, again))  # fmt: skip
    assert one == two


def check_all(pair: Pair) -> None:
    """Everything that holds for a decoder."""
    check_forward(pair)
    check_cache(pair)
    check_greedy(pair)
    check_bfloat16(pair)
    check_config(pair)
