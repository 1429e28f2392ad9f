"""The sharding engine: a traced computation and a mesh -> where each of its arrays lies.

Code outside imports from here only. README.md says which file does what.
"""

from redco_plan.classes import LETTERS, neighbouring_classes
from redco_plan.collective import Collective, bytes_sent, collectives_per_layer, dim_letters
from redco_plan.collectives import in_stages, predict_collectives, token_axes
from redco_plan.constraints import LayerProduct, constrain, layer_products, row_constraints
from redco_plan.divide import Divider, find_ways
from redco_plan.placement import (
    CONTEXT,
    DATA,
    EXPERT,
    FSDP,
    MODEL,
    STAGE,
    axes_of_entry,
    fsdp_axes,
    inner_axes,
    shard_shape,
)
from redco_plan.graph import Node
from redco_plan.plan import Plan, plan_sharding
from redco_plan.trace import (
    ShardingError,
    error_advice,
    error_location,
    error_message,
    install_advice,
)

__all__ = [
    "CONTEXT",
    "DATA",
    "EXPERT",
    "FSDP",
    "LETTERS",
    "MODEL",
    "STAGE",
    "Collective",
    "Divider",
    "LayerProduct",
    "Node",
    "Plan",
    "ShardingError",
    "axes_of_entry",
    "bytes_sent",
    "collectives_per_layer",
    "constrain",
    "dim_letters",
    "error_advice",
    "error_location",
    "error_message",
    "find_ways",
    "fsdp_axes",
    "in_stages",
    "inner_axes",
    "install_advice",
    "layer_products",
    "neighbouring_classes",
    "plan_sharding",
    "predict_collectives",
    "row_constraints",
    "shard_shape",
    "token_axes",
]
