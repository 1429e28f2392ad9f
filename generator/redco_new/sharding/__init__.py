"""The sharding engine: a traced computation and a mesh -> where each array of it lies."""

from redco_new.sharding.classes import LETTERS
from redco_new.sharding.constraints import constrain
from redco_new.sharding.divide import DATA, EXPERT, FSDP, MODEL, inner_axes
from redco_new.sharding.plan import Plan, plan_sharding
from redco_new.sharding.trace import ShardingError

__all__ = [
    "DATA",
    "EXPERT",
    "FSDP",
    "LETTERS",
    "MODEL",
    "Plan",
    "ShardingError",
    "constrain",
    "inner_axes",
    "plan_sharding",
]
