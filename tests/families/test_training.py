"""Which parameters decay, smoothed labels, schedules, clipping and Adam are those of transformers' Trainer."""

import numpy as np
import pytest
from families.training import train_both

CLIP = {"gpt2": 1.0, "t5": 0.3}  # of their gradients, which are larger at first


@pytest.mark.parametrize("name", CLIP)
def test_each_step_is_that_of_trainer(name):
    settings = {"learning_rate": 5e-3, "weight_decay": 3.0, "clip_norm": CLIP[name]}
    ours, theirs = train_both(name, steps=12, smoothing=0.1, **settings)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-5)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-2)
    assert ours[0][-1] < ours[0][0] - 0.1 and ours[1].max() > CLIP[name]
