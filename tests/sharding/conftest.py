"""The models of the zoo are users' models: they may broadcast as NumPy does."""

import jax
import pytest


@pytest.fixture(autouse=True)
def rank_promotion():
    with jax.numpy_rank_promotion("allow"):
        yield
