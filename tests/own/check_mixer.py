"""A project of Mixer against Flax itself, on one batch: evaluation, what a step changes, dropout."""

import jax
import numpy as np
import optax
from mixer import pipeline
from mixer.config import TINY
from mixer.sharding import AXES
from mixer.steps import build
from mixer.runtime.nn.user_class import import_module
from mixer.runtime.layout.mesh import make_mesh

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)

batch = pipeline.collate(pipeline.examples(TINY)[0][:16])
net = import_module("nets_linen").Mixer(width=16)  # late: it computes when it is imported


def held(state):
    others = state.variables["net"]
    counts, stats = {"calls": others["calls"]}, {"BatchNorm_0": others["BatchNorm_0"]}
    found = {"params": state.params["net"], "batch_stats": stats, "counts": counts}
    return jax.tree.map(jax.numpy.asarray, jax.device_get(found))


with jax.set_mesh(make_mesh(AXES)):
    steps = build(TINY)
    state = steps.init(jax.random.key(0))
    rows = jax.device_put(batch, steps.batch)
    keys = map(jax.random.key, (1, 1, 2))
    one, same, other = (np.asarray(steps.loss(state.model, rows, key)[0]) for key in keys)
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    before = held(state)
    changed = net.apply(
        before,
        batch["x"],
        True,
        mutable=["batch_stats", "counts"],
        rngs={"dropout": jax.random.key(0)},
    )[1]
    state, _ = steps.train(state, rows)
    after = held(state)
    for name in changed:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
            after[name],
            changed[name],
        )
    assert abs(after["batch_stats"]["BatchNorm_0"]["mean"]).max() > 0
    logits = net.apply(after, batch["x"], False)
    expected = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).sum()
    valid = jax.device_put(np.ones(16, bool), steps.batch)
    found, weight = steps.evaluate(state.model, rows, valid)
    np.testing.assert_allclose(found["loss"], expected, rtol=1e-5)
    assert weight == 16
