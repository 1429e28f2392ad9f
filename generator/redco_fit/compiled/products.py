"""FLOPs of the matrix products, of the experts' kernels (groups.py) and of attention's, of a compiled program."""

from __future__ import annotations

import re
from math import prod

from redco_fit.compiled.groups import groups_of
from redco_fit.compiled.instructions import Instruction, Program, shapes

CONTRACTED = re.compile(r'"?lhs_contracting_dim(?:ension)?s"?[=:][{\[]"?([\d,"]+)"?[}\]]')
SCORES = re.compile(r'"intermediate_tensor_shape":.*?"dimensions": ?\[([^\]]*)\]')
TEXTS = re.compile(r'"max_seg_per_batch": ?"?(\d+)')
# What operands are -> the dtype of a product, by which machines have their speeds; the slowest first.
DTYPES = {"f32": "float32", "bf16": "bfloat16", "f8": "float8", "s8": "int8"}
EIGHT = ("float8", "int8")
WINDOW = re.compile(r'"sliding_window_length": ?"?(\d+)')


def product_flops(program: Program, computation: str, one: Instruction, parts: int = 1) -> float:
    """Return the FLOPs of the products of an instruction, with those of what it fuses.

    parts: in how many the devices split the experts, where there are some.
    """
    if one.operation in ("fusion", "call"):
        return sum(
            product_flops(program, name, inner, parts)
            for name in program.callees(one)
            for inner in program.computations[name]
        )
    if groups := groups_of(program, computation, one, parts):
        return groups.flops
    library = one.operation == "custom-call" and "cublas" in one.rest
    if one.operation == "convolution":
        return _convolved(program, computation, one)
    if one.operation != "dot" and not library:
        return 0
    over = CONTRACTED.search(one.rest)
    dims = [int(dim) for dim in over[1].replace('"', "").split(",")] if over else []
    left = shapes(program.operands(computation, one)[0])[0]
    return 2 * prod(shapes(one.type)[0]) * prod(left[dim] for dim in dims)


def product_dtype(program: Program, computation: str, one: Instruction) -> str:
    """Return what the products of an instruction multiply, of DTYPES; the slowest, with those of what it fuses."""
    if one.operation in ("fusion", "call"):
        inner = {
            product_dtype(program, name, other)
            for name in program.callees(one)
            for other in program.computations[name]
            if product_flops(program, name, other)
        }
        return next((dtype for dtype in DTYPES.values() if dtype in inner), "bfloat16")
    sides = program.operands(computation, one)[:2]
    wide = (dtype for start, dtype in DTYPES.items() if any(x.startswith(start) for x in sides))
    return next(wide, "bfloat16")


def _convolved(program: Program, computation: str, one: Instruction) -> int:
    """Return the FLOPs of a convolution: libtpu writes matrix products as such.

    What the kernel contracts is its input features and its window, where the window is not slid.
    """
    kernel = program.operands(computation, one)[1]
    labels = re.search(r"dim_labels=\w+_(\w+)->(\w+)", one.rest)
    if not kernel or not labels:
        return 0
    (sizes,), (result,) = shapes(kernel)[:1], shapes(one.type)[:1]
    contracted = 1
    for size, label in zip(sizes, labels[1], strict=True):
        if label == "i" or (label != "o" and result[labels[2].index(label)] == 1):
            contracted *= size
    return 2 * prod(result) * contracted


def attention_flops(program: Program, computation: str, one: Instruction) -> int:
    """Return the model FLOPs of one of cuDNN's attention kernels; 0 for anything else.

    Forward two products, backward four (Kaplan et al. 2020, section 2.1), though its kernel computes
    the scores again. A causal query counts the keys that it sees, those of its window if it has one.
    """
    if "__cudnn$fmha" not in one.rest:
        return 0
    features = shapes(program.operands(computation, one)[0])[0][-1]
    scores = SCORES.search(one.rest)
    if scores is None:
        raise ValueError(
            f"{one.name}: the kernel of attention does not say the shape of its scores"
        )
    rows, heads, queries, keys = map(int, scores[1].replace('"', "").split(","))
    causal, window = "CAUSAL" in one.rest, WINDOW.search(one.rest)
    near = int(window[1]) if window and int(window[1]) else keys
    pairs = seen(queries, min(near, keys)) if causal else queries * keys
    return (4 if "Backward" in one.rest else 2) * 2 * rows * heads * pairs * features


def attention_workspace(program: Program, texts: int = 0) -> int:
    """Return the most bytes that one of cuDNN's attention kernels works with, which no compiler sees.

    Going backward it adds up the gradient of the queries in float32 (Dao 2023, algorithm 2). Of rows with
    several texts it has, for each text that a row has room for, as much as for a row, the sums of its
    softmax, and gradients of keys and values for each head of queries: so cudnn-frontend's
    scaled_dot_product_flash_attention.h sizes them, and so much, within .1 %, one step on an H100 took
    (tests/tools/device/RESULTS.md).
    texts: that a row has room for; 0 for what the kernels say.
    """
    sizes = [
        _workspace(program, computation, one, texts)
        for computation, instructions in program.computations.items()
        for one in instructions
        if "__cudnn$fmha" in one.rest and "Backward" in one.rest
    ]
    return max(sizes, default=0)


def _workspace(program: Program, computation: str, one: Instruction, texts: int) -> int:
    """Return the bytes that one backward kernel works with; texts: as of `attention_workspace`."""
    queries, keys = (shapes(type_)[0] for type_ in program.operands(computation, one)[:2])
    said = TEXTS.search(one.rest)
    texts = texts or (int(said[1]) if said else 1)
    sums = 4 * prod(queries)
    if texts == 1:
        return sums
    heads = 2 * 2 * prod(queries) if prod(keys) < prod(queries) else 0
    return texts * (sums + sums // queries[-1] + heads)


def seen(queries: int, window: int) -> int:
    """Return how many pairs of a query and a key there are, where a query sees the last `window` keys."""
    return queries * window - window * (window - 1) // 2
