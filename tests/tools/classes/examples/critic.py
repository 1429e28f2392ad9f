"""sbx-rl: the critics of SAC, two of them at once under vmap, which come before the rows of the batch."""

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from sbx.common.policies import SimbaVectorCritic


class Wrapped(nn.Module):
    net_arch: tuple[int, ...]

    @nn.compact
    def __call__(self, obs, action):
        net = SimbaVectorCritic(net_arch=self.net_arch, n_critics=2)
        return jnp.moveaxis(net(obs=obs, action=action), 0, 1)


def example(width=64):
    obs, action = np.zeros((1, 32), np.float32), np.zeros((1, 8), np.float32)
    return {"net_arch": (width, width)}, {"obs": obs, "action": action}


def large():
    return example(1024)
