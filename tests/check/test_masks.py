"""What is said of losses that heed a mask, and of those that do not."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from redco_new.check.measure.masks import measure_masks

ROWS, LENGTH, WORDS = 4, 16, 13
TABLE = jax.random.normal(jax.random.key(0), (WORDS, 8))


def losses(batch, causal=True, attends=True, weighs=True, parts=True):
    """Return (losses, weights) of a model of one layer of attention, which may forget one thing."""
    numbers = batch["segments"] if "segments" in batch else batch["mask"].astype(np.int32)
    x = TABLE[batch["input_ids"]]
    sees = jnp.ones((1, LENGTH, LENGTH), bool)
    sees = jnp.tril(sees) if causal else sees
    sees = sees & ((numbers[:, None, :] > 0) if attends else True)
    sees = sees & ((numbers[:, :, None] == numbers[:, None, :]) if parts else True)
    scores = jnp.where(sees, jnp.einsum("bsd,btd->bst", x, x), -1e9)
    logits = jnp.einsum("bst,btd->bsd", jax.nn.softmax(scores), x) @ TABLE.T
    labels = jnp.roll(batch["input_ids"], -1, axis=1)
    found = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)[..., 0]
    same = numbers == jnp.roll(numbers, -1, axis=1)
    weights = (same & (numbers > 0)) if weighs else same
    return found, weights.at[:, -1].set(False).astype(jnp.float32)


def said(function, **arrays):
    """Return (faults, facts) of the masks of a batch by a loss of it."""
    lines = []
    project = SimpleNamespace(
        package="p",
        modules={"steps": SimpleNamespace()},
        config=SimpleNamespace(data=SimpleNamespace(packing="on"), train=SimpleNamespace(seed=0)),
        fault=lambda check, where, what: lines.append((check, what)),
        tell=lambda **content: lines.append((content["fact"], content["value"])),
    )
    steps = SimpleNamespace(
        init=lambda key: SimpleNamespace(model=None),
        loss=lambda model, batch, key: function(batch),
        batch=jax.sharding.SingleDeviceSharding(jax.devices()[0]),
    )
    ids = np.random.default_rng(0).integers(1, WORDS, (ROWS, LENGTH)).astype(np.int32)
    batch = {"input_ids": ids, "mask": np.ones((ROWS, LENGTH), bool), **arrays}
    measure_masks(project, steps, batch)
    return [what for check, what in lines if check == "masks"], dict(lines).get("reach")


def test_a_loss_that_heeds_its_masks():
    assert said(losses) == ([], "the losses after it")


def test_both_directions():
    assert said(lambda batch: losses(batch, causal=False)) == ([], "all losses of its row")


@pytest.mark.parametrize(
    ("forgets", "says"),
    [
        ({"weighs": False}, "input_ids has an effect where mask covers it"),
        ({"attends": False, "causal": False, "parts": False}, "input_ids has an effect where mask"),
        ({"parts": False}, "sees the one before it"),
    ],
)
def test_a_mask_that_is_forgotten(forgets, says):
    faults, _ = said(lambda batch: losses(batch, **forgets))
    assert any(says in fault for fault in faults), faults


def test_a_mask_without_effect():
    learned = np.tile(np.arange(LENGTH) > 4, (ROWS, 1))

    def heeds(batch):
        found, weights = losses(batch)
        return found, weights * batch["learned"]

    assert said(heeds, learned=learned)[0] == []
    what = "learned of the batch has no effect: what it covers is learned from as the rest"
    assert said(losses, learned=learned)[0] == [what]
