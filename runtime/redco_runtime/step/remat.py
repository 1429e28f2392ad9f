"""What the forward pass saves for the backward pass, and what that computes again: it follows the memory.

A model names the results of its products, by `lay_out` and `attention`. Of those that the backward
pass needs, the ones that spare most FLOPs for the bytes they take are saved, while they fit. Where
layers save all of theirs, a GPU gets them written out, in no loop, unless many share its rows.
"""

from typing import Any

import jax

from ..base.messages import UserError, announce
from ..base.state import ModelState, PyTree, TrainState
from ..base.together import decide
from ..layout.mesh import memory_of, platform
from ..layout.specs import gradient_size, size_on_device
from ..nn.layers import FIT, LOGITS, POLICIES, saving
from .gradients import Loss
from .memory_estimate import Saving, measure

# Devices that share a row, from which on layers stay in a loop: written out, XLA:GPU packs the activations that all of
# them have worse, and a step is no faster. Llama 7B, model 8: 48.4 GiB, in a loop 39.8; model 2 beside fsdp 4: no more.
SHARED = 4
# Bytes of a device that does not say, such as a CPU: those of a TPU v5e, the smallest in common use.
UNKNOWN = 16 * 10**9
# The share of the memory that is left free: kernels' own workspace, and what lies in between.
FREE = 0.1


def fit(
    loss: Loss,
    model: ModelState,
    batch: PyTree,
    micro_batches: int,
    remat: str,
    left: int,
    rows: int,
    experts: Any = None,
) -> Loss:
    """Return `loss`, which saves what `remat` says, or by FIT what the memory of a device has room for.

    model, batch: of a step, arrays or their shapes. left: bytes on each device, as `room` counts them.
    rows: into how many parts the devices split a batch. experts: as of `measure`. The choice is said in a line.
    Raises UserError if `remat` names what the backward pass does not need.
    """
    if remat in POLICIES:
        return loss

    def cut(x: jax.Array) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((x.shape[0] // micro_batches, *x.shape[1:]), x.dtype)

    key, micro_batch = jax.eval_shape(jax.random.key, 0), jax.tree.map(cut, batch)
    needs = measure(loss, model, micro_batch, key, rows, experts)
    if remat == FIT:
        names = choose(needs.savings, left - needs.size)
        _say(needs.savings, names)
    else:
        names = tuple(remat.split(","))
        check_names(names, needs.savings)
    shared = jax.sharding.get_abstract_mesh().size // rows
    written_out = platform() == "gpu" and writes_out(needs.savings, names, shared)

    def fitted(model: ModelState, batch: PyTree, key: jax.Array) -> tuple[Any, PyTree]:
        with saving(names, written_out):
            return loss(model, batch, key)

    return fitted


def choose(savings: tuple[Saving, ...], left: int) -> tuple[str, ...]:
    """Return the names, in their order, of those that fit in `left` bytes."""
    names = []
    for one in savings:
        if one.size <= left:
            names.append(one.name)
            left -= one.size
    return tuple(names)


def writes_out(savings: tuple[Saving, ...], names: tuple[str, ...], shared: int) -> bool:
    """Return whether a GPU gets layers written out: those that save all that spares FLOPs.

    shared: devices that share a row of the batch.
    """
    return shared < SHARED and {one.name for one in savings} <= {*names, LOGITS}


def check_names(names: tuple[str, ...], savings: tuple[Saving, ...]) -> None:
    """Raise UserError for a name that saves nothing."""
    possible = [one.name for one in savings]
    for name in names:
        if name not in possible:
            raise UserError(
                f"--remat: {name!r} is no array that the backward pass needs: give {FIT}, "
                f"{', '.join(POLICIES)}, or some of {','.join(possible)}"
            )


def device_memory() -> int:
    """Return the bytes that a device of the mesh in place has for arrays, the same in all processes."""
    own, devices = jax.process_index(), jax.sharding.get_mesh().devices.flat
    here = [device for device in devices if device.process_index == own]
    size = (memory_of(here[0]) if here else 0) or UNKNOWN
    return int(decide("the memory of devices", size, min))


def state_size(state: TrainState, micro_batches: int) -> int:
    """Return the bytes on each device of a state, and of gradients: of a micro-batch, and their sum."""
    return size_on_device(state) + gradient_size(state, micro_batches)


def room(used: int) -> int:
    """Return the bytes of a device that are left beside `used`, and beside those that stay free."""
    return int(device_memory() * (1 - FREE)) - used


def _say(savings: tuple[Saving, ...], names: tuple[str, ...]) -> None:
    """Print which arrays are saved."""
    size = sum(one.size for one in savings if one.name in names)
    again = [one.name for one in savings if one.name not in names]
    rest = f"; computed again: {', '.join(again)}" if again else ""
    announce(f"remat: {size / 1e9:.1f} GB saved: {', '.join(names) or 'nothing'}{rest}")
