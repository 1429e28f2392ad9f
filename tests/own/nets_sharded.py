"""Classes that say where their arrays lie, in each of the ways that JAX and Flax have for it."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx
from jax.lax import with_sharding_constraint as constrain
from jax.sharding import NamedSharding, get_abstract_mesh, reshard
from jax.sharding import PartitionSpec as P


class Placed(nnx.Module):
    """By metadata of parameters, constraints, `out_sharding`, and meshes of its own."""

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        @nnx.vmap(transform_metadata={nnx.PARTITION_NAME: "layers"})
        def layers(rngs):
            init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("fsdp", "tp"))
            return nnx.Linear(width, width, kernel_init=init, rngs=rngs)

        self.up = nnx.Linear(12, width, rngs=rngs)
        self.layers = layers(rngs.split(2))
        self.table = nnx.Param(jnp.ones((width, 4)), out_sharding=P("model", "data"))
        self.mesh = jax.make_mesh((1, 1), ("dp", "tp"))

    def __call__(self, x):
        @nnx.scan(
            in_axes=(nnx.Carry, 0),
            out_axes=nnx.Carry,
            transform_metadata={nnx.PARTITION_NAME: "layers"},
        )
        def run(x, layer):
            return nnx.relu(layer(x))

        x = run(constrain(self.up(x), P("dp", "tp")), self.layers)
        if not get_abstract_mesh().empty:
            x = reshard(x, P("dp"))
        with jax.set_mesh(self.mesh):
            x = constrain(x, NamedSharding(self.mesh, P("dp", "tp")))
        return jnp.einsum("bi,ij->bj", x, self.table[...], out_sharding=P("dp", "tp"))


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, _):
        init = nn.with_partitioning(nn.initializers.lecun_normal(), ("tp", None))
        return x + nn.Dense(self.width, kernel_init=init)(nn.relu(x)), None


class Boxed(nn.Module):
    """By boxes around parameters and statistics, with rules for logical names, through a scan."""

    width: int

    @nn.compact
    def __call__(self, x, train: bool):
        with nn.logical_axis_rules((("embed", "fsdp"), ("mlp", "tp"), ("batch", "dp"))):
            init = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "mlp"))
            x = nn.Dense(self.width, kernel_init=init)(x)
            x = nn.with_logical_constraint(x, ("batch", "mlp"))
        x = nn.BatchNorm(use_running_average=not train)(x)
        blocks = nn.scan(
            Block,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            length=2,
            metadata_params={nn.meta.PARTITION_NAME: "layers"},
        )
        return nn.Dense(4)(blocks(self.width)(x, None)[0])


class Constrained(nnx.Module):
    """In its call alone, by an axis that redco's meshes have too."""

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        self.up = nnx.Linear(12, width, rngs=rngs)

    def __call__(self, x):
        return jax.lax.with_sharding_constraint(self.up(x), P(None, "model"))
