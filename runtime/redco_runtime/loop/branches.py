"""The models of a run, each a branch of its parameters, and what each of them starts from."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from ..base.contracts import Steps, Weights
from ..base.messages import UserError
from ..base.state import ModelState, TrainState
from ..checkpoints.load import initial
from ..run.record import Run
from .start import new_run

Leaf = TypeVar("Leaf")

# (config, --init) -> branch -> (a run or weights, by path or id, or None or "" for random numbers; the sizes of
# the model, a section of the config; the Head of one of its own), or the branch that it starts as, whole or in part
Starts = Callable[[Any, str | None], Mapping[str, tuple[Any, ...] | str]]


class Head(NamedTuple):
    """A head that the models of a project's files have not."""

    flag: str  # what names its run or weights
    weights: Callable[[Any], Any]  # of those -> what files call the parameters of the model with it
    needed: tuple[str, ...]  # paths of parameters that it cannot start without


def branch_of(leaves: Mapping[str, Leaf], name: str) -> dict[str, Leaf]:
    """Return the leaves of a branch, by their paths in it: "teacher/ln/scale" -> "ln/scale"."""
    start = f"{name}/"
    return {p.removeprefix(start): leaf for p, leaf in leaves.items() if p.startswith(start)}


def start_several(starts: Starts) -> Callable[[Steps, Run, Weights], TrainState]:
    """Return what makes the state of a new run of several models, each from what `starts` says."""

    def start(steps: Steps, run: Run, weights: Weights) -> TrainState:
        model, arrays = steps.state.model, dict[str, jax.Array]()
        branches = starts(run.config, run.init)
        copies = {name: other for name, other in branches.items() if isinstance(other, str)}
        for name, begin in branches.items():
            source, sizes, *heads = ("", None) if isinstance(begin, str) else begin
            if source:
                whole = run.config
                config = replace(whole, model=sizes)
                part = replace(run, init=source, config=config)
                named = heads[0].weights(weights) if heads else weights
                needed = heads[0].needed if heads else ()
                try:
                    own = new_run(steps_of(steps, name), part, named, needed).params
                except UserError as error:
                    if heads:
                        raise UserError(str(error).replace("--init", heads[0].flag)) from None
                    raise UserError(f"the {name}, as from --init {source}: {error}") from None
                arrays |= {f"{name}/{path}": leaf for path, leaf in own.items()}
        others = [path for path in model.arrays if path.partition("/")[0] not in copies]
        absent = [path for path in others if path not in arrays]
        arrays |= initial(steps, absent, run.config.train.seed)
        for name, other in copies.items():
            arrays |= _copied(steps, name, branch_of(arrays, other))
        return steps.start(model.with_arrays(arrays))

    return start


def _copied(steps: Steps, name: str, arrays: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Return the arrays of a branch, by path: copies of those of another one, by their paths in it."""
    like = {path: x for path, x in steps.state.model.arrays.items() if path.startswith(f"{name}/")}

    def copy(arrays: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        copies = {}
        for path, place in like.items():
            x = arrays[path.removeprefix(f"{name}/")]
            whole = steps.shapes[path].shape if path in steps.shapes else x.shape
            x = x[tuple(map(slice, whole))]  # padding is each branch's own
            rows = [(0, more - size) for size, more in zip(x.shape, place.shape, strict=True)]
            copies[path] = jnp.copy(jnp.pad(x, rows)).astype(place.dtype)
        return copies

    places = {path: place.sharding for path, place in like.items()}
    return jax.jit(copy, out_shardings=places)(arrays)


def steps_of(steps: Steps, name: str) -> Steps:
    """Return steps that know one model alone: `init` and `start` give a state with its `params`, by path."""

    def state_of(state: TrainState) -> TrainState:
        own = branch_of(state.model.arrays, name)
        return replace(state, params=own, opt_state={}, variables={}, ema={}, frozen={})

    def start(model: ModelState) -> TrainState:
        return replace(state, params=model.params)

    state = state_of(steps.state)
    return replace(
        steps,
        state=state,
        shapes=branch_of(steps.shapes, name),
        init=lambda key: state_of(steps.init(key)),
        start=start,
    )
