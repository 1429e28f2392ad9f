"""What a program computes in: the dtype of its config, but where the class says another.

A class is traced in bfloat16, which stands for the dtype of the config: what is float32 in that program is so by the
class's own casts. Parameters of model.py are float32, and cast where they are read.
"""

from __future__ import annotations

import ast
from functools import reduce

import torch
from torch import nn

from redco_new.pytorch.merge import Node, walk

COMPUTE = torch.bfloat16  # what a class is traced in
FIELD = "dtype"  # of the config
CONFIG = "config"  # what each class that reads it calls the one config of model.py
# Rules that say themselves of which dtype their result is.
SAID = frozenset(
    "zeros ones empty new_zeros new_ones new_empty full new_full arange scalar_tensor _to_copy to type_as mean sum copy"
    " layer_norm rms_norm experts attention scaled_dot_product_attention randn rand randn_like rand_like".split()
)
DTYPES = {
    torch.float32: "jnp.float32", torch.float64: "jnp.float32", torch.float16: "jnp.float16",
    torch.int64: "jnp.int32", torch.int32: "jnp.int32", torch.uint8: "jnp.uint8", torch.int8: "jnp.int8",
    torch.bool: "bool", torch.complex64: "jnp.complex64",
}  # fmt: skip


def dtype_of_result(node: Node, leaf: object, is_said: bool) -> torch.dtype | None:
    """Return of which other dtype than the step's own its Python is, by JAX's promotion; None for the same.

    leaf: the layer of torch.nn that it calls, or None
    is_said: whether the rule by which it is printed says the dtype
    """
    name = str(node.target).partition(".")[0]
    if node.dtype is None or not node.dtype.is_floating_point or is_said or name in SAID:
        return None
    if node.kind == "module":
        result = torch.float32 if isinstance(leaf, nn.Embedding) else node.dtype
    elif node.kind == "operation" and name != "embedding":
        dtypes = [x.dtype for x in walk(node.arguments) if x.dtype and x.dtype.is_floating_point]
        result = reduce(torch.promote_types, dtypes) if dtypes else torch.float32
    else:
        result = torch.float32 if name == "embedding" else node.dtype
    return None if result == node.dtype else result


def cast(x: ast.expr, dtype: ast.expr) -> ast.expr:
    """Return x.astype(dtype)."""
    return ast.Call(ast.Attribute(x, "astype", ast.Load()), [dtype], [])
