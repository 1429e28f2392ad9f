"""Rank promotion as JAX has it: users' classes promote."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def promote():
    with jax.numpy_rank_promotion("allow"):
        yield
