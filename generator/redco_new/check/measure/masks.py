"""What masks cover must not count, and that they cover it must; and which losses a token has an effect on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from redco_new.check.measure.child import Project

SHARE = 4  # of what a mask shows, one of so many is covered
CLOSE = 1e-5  # of a loss: what a sum in another order may differ by
SEGMENTS, TOKENS = "segments", "input_ids"

Arrays = Mapping[str, np.ndarray]


def measure_masks(project: Project, steps: Any, batch: Arrays) -> None:
    """Tell each mask of a batch that has no effect, or through which what it covers is seen."""
    compute = losses_of(project, steps)
    whole = compute(batch)
    for name, mask in batch.items():
        if not is_mask(name, mask):
            continue
        cover = covered(mask)
        shown = {**batch, name: np.where(cover, np.zeros_like(mask), mask)}
        less = compute(shown)
        if same(whole, less):
            tell(
                project,
                f"{name} of the batch has no effect: what it covers is learned from as the rest",
            )
        hides = {k for k in batch if is_hidden(k, name) and batch[k].shape == mask.shape}
        other = {k: np.where(cover, another(batch[k]), batch[k]) for k in hides}
        # Where targets are apart from the tokens, those of a place that is covered may weigh as they did.
        apart = any(k.startswith("label") and batch[k].shape == mask.shape for k in batch)
        if other and not same(less, compute({**shown, **other}), ~cover if apart else None):
            tell(project, f"{', '.join(sorted(hides))} has an effect where {name} covers it")
    if TOKENS in batch and batch[TOKENS].ndim == 2 and whole[0].shape[:2] == batch[TOKENS].shape:
        tell_reach(project, compute, batch)
        if SEGMENTS in batch or hasattr(project.config.data, "packing"):
            tell_segments(project, compute, batch)


def losses_of(project: Project, steps: Any) -> Any:
    """Return batch -> (losses * weights, weights), of the first parameters; all keys are the same."""
    key = jax.random.key(1)
    model = steps.init(jax.random.key(project.config.train.seed)).model
    keyed = getattr(project.modules["steps"], "with_keys", None)

    @jax.jit
    def compute(batch: Any) -> tuple[jax.Array, jax.Array]:
        result = steps.loss(model, keyed(batch, key) if keyed else batch, key)
        losses, *rest = result if isinstance(result, tuple) else (result,)
        weights = rest[0] if rest else jnp.ones(losses.shape)
        return jnp.where(weights == 0, 0, losses * weights), weights

    return lambda batch: jax.device_get(compute(jax.device_put(dict(batch), steps.batch)))


def is_mask(name: str, array: np.ndarray) -> bool:
    """Tell whether an array of a batch says of each place whether it counts."""
    return array.ndim > 1 and (array.dtype == bool or name == SEGMENTS)


def is_hidden(name: str, mask: str) -> bool:
    """Tell whether a mask hides an array: mask and segments the tokens, label_mask what begins with label."""
    if mask in ("mask", SEGMENTS):
        return name == TOKENS
    stem = mask.removesuffix("_mask")
    return stem != mask and name != mask and name.startswith(stem)


def covered(mask: np.ndarray) -> np.ndarray:
    """Return where the last of what a mask shows in each row is, one of SHARE places, one at least."""
    flat = (mask != 0).reshape(len(mask), -1)
    place, total = np.cumsum(flat, axis=1), flat.sum(axis=1, keepdims=True)
    last = np.maximum(total // SHARE, 1)
    return (flat & (place > total - last)).reshape(mask.shape)


def another(ids: np.ndarray) -> np.ndarray:
    """Return numbers that occur in an array, at each place another one than is there."""
    values = np.unique(ids)
    first, second = values[0], values[-1]
    return np.where(ids == first, second, first).astype(ids.dtype)


def same(one: Any, other: Any, at: np.ndarray | None = None) -> bool:
    """Tell whether losses and weights are the same, at all places, or of a loss for each place at some."""
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(one, other, strict=True)]
    if at is not None and pairs[0][0].shape == at.shape:
        pairs = [(x[at], y[at]) for x, y in pairs]
    (losses, others), (weights, rest) = pairs
    apart = np.abs(losses - others).max(initial=0)
    return bool(apart <= CLOSE * largest(losses) and np.array_equal(weights, rest))


def largest(losses: np.ndarray) -> float:
    """Return the largest of some losses, by which others are close."""
    return max(float(np.abs(losses).max(initial=0)), 1e-6)


def tell_reach(project: Project, compute: Any, batch: Arrays) -> None:
    """Tell whether a token has an effect on losses before its own: of a causal model it has none."""
    ids = batch[TOKENS]
    at = ids.shape[1] // 2
    changed = ids.copy()
    changed[:, at] = another(ids)[:, at]
    before, after = (compute({**batch, TOKENS: x})[0] for x in (ids, changed))
    moved = np.abs(after - before).reshape(*ids.shape, -1).max(axis=(0, 2))
    columns = np.flatnonzero(moved > CLOSE * largest(before))
    first = int(columns[0]) if len(columns) else at
    # The loss of the place before is that of this token, where each predicts the next.
    project.tell(
        fact="reach", value="the losses after it" if first >= at - 1 else "all losses of its row"
    )


def tell_segments(project: Project, compute: Any, batch: Arrays) -> None:
    """Tell whether a text that is packed in a row has an effect on the next one."""
    ids = batch[TOKENS]
    half = ids.shape[1] // 2
    numbers = np.broadcast_to(1 + (np.arange(ids.shape[1]) >= half), ids.shape)
    packed = {k: x for k, x in batch.items() if k != "mask"}
    packed[SEGMENTS] = np.ascontiguousarray(numbers, np.int32)
    changed = np.where(numbers == 1, another(ids), ids)
    try:
        one, other = (compute({**packed, TOKENS: x})[0][:, half:] for x in (ids, changed))
    except KeyError:  # a pipeline of which texts that share a row see each other, and have a mask
        return
    if not np.allclose(one, other, rtol=1e-4, atol=CLOSE * largest(one)):
        tell(
            project,
            f"a text that is packed in a row sees the one before it: {SEGMENTS} do not part them",
        )


def tell(project: Project, what: str) -> None:
    """Tell a fault of a mask."""
    project.fault("masks", f"{project.package}/pipeline.py::loss", what)
