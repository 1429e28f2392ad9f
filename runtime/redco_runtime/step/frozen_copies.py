"""What devices hold of frozen kernels besides: GPUs copy those of layers that are written out, and keep them."""

import jax

from ..base.state import PyTree
from ..layout.mesh import platform
from ..layout.specs import size_on_device

# Times that what is read of codes takes in 16 bits: of two codes a byte, and of one.
LONGER = {"uint8": 4, "int8": 2}


def copied_size(frozen: PyTree) -> int:
    """Return the bytes on each device of what GPUs read of frozen parameters, and hold until the backward pass.

    Of what is trained, gradients, which come later, take that room and more.
    frozen: ShapeDtypeStructs with shardings.
    """
    if platform() != "gpu":
        return 0
    return sum(LONGER.get(str(x.dtype), 1) * size_on_device(x) for x in jax.tree.leaves(frozen))
