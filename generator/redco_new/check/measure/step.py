"""The train step over devices beside that on one, of the same batch: its numbers, its specs, and what it sends."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from redco_new.check.measure.child import Project
from redco_new.check.measure.masks import measure_masks
from redco_new.check.measure.order import batches, measure_order
from redco_new.check.measure.sent import Length, tell_sent

# As the tests of a project compare gradients: by their largest number, and where rounding decides (a ReLU at zero), by
# how far those of near parameters are apart.
CLOSE, NEAR = 1e-5, 3
# Of a mean whose numbers, of about 1, cancel each other, such as advantages in ppo, roundings alone are left: 5e-7 of 256.
CANCELLED = 0.1
NUDGE = 1e-5  # of a parameter: some tens of roundings
MOVED = 0.02  # of the length of an update: Adam divides by what may be a rounding
TINY = 1e-30  # so that nothing is divided by 0
SHORTER = 8  # so that a sequence has a length that no other dim has, and devices still divide

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """What a step gave: scalars by name, and its state before and after, by name."""

    values: Mapping[str, float]
    before: Arrays
    after: Arrays
    near: Arrays  # of nudged parameters; {} where it was not asked for
    near_values: Mapping[str, float]


def measure(project: Project) -> None:
    """Tell what is measured of a step."""
    with project.measuring("runs", "building the steps"):
        with over(project, 1) as (steps, mesh):
            tell_specs(project, steps)
            measure_order(project, steps.batch)
            batch, length = first_batch(project, steps)
            before = host(project, steps.init(jax.random.key(project.config.train.seed)))
        one = whole = None
        with project.measuring("runs", "a step on one device"):
            one = take(project, before, batch, 1, alone=True)
        with project.measuring("sharded", "a step over devices"):
            whole = take(project, before, batch, 1, length=length)
        if one and whole:
            tell_fault(project, difference(project, one, whole), "")
            with project.measuring("sharded", "a step over devices, in two micro-batches"):
                compare_parts(project, before, batch, one)
        if not project.plays:
            with project.measuring("masks", "covering what masks cover"):
                with over(project, 1, alone=True) as (steps, mesh):
                    measure_masks(project, steps, batch)


def compare_parts(project: Project, before: Arrays, batch: Arrays, one: Outcome) -> None:
    """Tell where a step in two micro-batches over devices is not that on one device.

    Where it is the step in one micro-batch, which most losses leave no choice, nothing else is compiled.
    """
    whole = take(project, before, batch, 2)
    if difference(project, one, whole):
        one = take(project, before, batch, 2, alone=True)
        tell_fault(project, difference(project, one, whole), " in two micro-batches")


@contextlib.contextmanager
def over(project: Project, parts: int, alone: bool = False) -> Iterator[tuple[Any, Any]]:
    """Yield (the project's steps, their mesh), in place; alone: on one device."""
    make = project.runtime("layout.mesh").make_mesh
    mesh = make(project.one, jax.devices()[:1]) if alone else make(project.mesh)
    train = replace(project.config.train, micro_batches=parts)
    with jax.set_mesh(mesh):
        yield project.modules["steps"].build(replace(project.config, train=train)), mesh


def tell_specs(project: Project, steps: Any) -> None:
    """Tell how arrays are split: of the state, what the optimizer keeps only where it lies otherwise; the batch; activations."""
    state, sharding = project.runtime("base.state"), project.modules["sharding"]
    activations = getattr(sharding, "ACTIVATIONS", {})
    leaves = {path: leaf.sharding.spec for path, leaf in state.flatten(steps.state).items()}
    own = {path.partition("/")[2]: x for path, x in leaves.items() if path.startswith("params/")}
    specs = {"batch": steps.batch.spec, **{f"ACTIVATIONS/{k}": x for k, x in activations.items()}}
    tables = {name: getattr(sharding, name, None) for name in ("AXES", "ROWS", "PADDED")}
    split = {name: str(value) for name, value in tables.items() if value}
    for path, spec in sorted({**leaves, **specs}.items()):
        of = (
            state.owner(path.partition("/")[2], own)
            if path.startswith(("opt_state/", "ema/"))
            else ""
        )
        if spell(spec) != (spell(own[of]) if of else ""):
            split[path] = spell(spec) or "whole"
    project.tell(fact="specs", value=split)


def spell(spec: Any) -> str:
    """Return a spec as it is written, without the dims at its end that are whole; "" for what is whole."""
    if not isinstance(spec, jax.sharding.PartitionSpec):
        return str(spec)
    entries = [*spec]
    while entries and entries[-1] is None:
        entries.pop()
    return f"P({', '.join(map(repr, entries))})" if entries else ""


def first_batch(project: Project, steps: Any) -> tuple[dict[str, np.ndarray], Length]:
    """Return the first batch of a run, on the host, and the length of its sequences; 0 where it has none."""
    if project.plays:
        some, pipeline = played(project, steps), project.modules["pipeline"]
        arrays = pipeline.collate(
            [some[i % len(some)] for i in range(project.config.train.batch_size)]
        )
        return {name: np.asarray(x) for name, x in arrays.items()}, 0
    batch = {name: np.asarray(x) for name, x in next(batches(project, steps.batch)).items()}
    whole = getattr(project.config.data, "sequence_length", 0)
    flatten = project.runtime("base.state").flatten
    sizes = {1, *itertools.chain(*(leaf.shape for leaf in flatten(steps.state).values()))}
    ways = {math.prod(project.mesh.values()), *project.mesh.values(), 1}
    others = {size // k for size in sizes for k in ways if size % k == 0}
    for length in range(whole - SHORTER, 0, -SHORTER):
        if not {length, *(length // k for k in ways if length % k == 0)} & others:
            return {name: cut(x, whole, length) for name, x in batch.items()}, length
    return batch, 0


def played(project: Project, steps: Any) -> Any:
    """Return what a model learns from that makes its own examples, after the first rollout."""
    pipeline, config = project.modules["pipeline"], project.config
    examples = [*itertools.islice(pipeline.examples(config)[0], 2 * config.train.batch_size)]
    model = steps.init(jax.random.key(config.train.seed)).model
    play = project.runtime("actors.playing").play
    rollout = play(pipeline, config, steps, model, examples, explore=True)
    return next(pipeline.minibatches(config, [rollout], np.random.default_rng(0)))


def cut(x: np.ndarray, whole: int, length: int) -> np.ndarray:
    """Return an array with `length` where it has `whole`, but in its first dim, which is that of rows."""
    return x[(slice(None), *(slice(length if n == whole else None) for n in x.shape[1:]))]


def take(
    project: Project,
    before: Arrays,
    batch: Arrays,
    parts: int,
    length: Length | None = None,
    alone: bool = False,
) -> Outcome:
    """Return what a step gives; alone: on one device, and again of parameters that are nudged.

    length: of a sequence, to tell what the step sends; None: not to.
    """
    rebuild = project.runtime("base.state").rebuild
    with over(project, parts, alone) as (steps, mesh):
        shardings = jax.tree.map(lambda leaf: leaf.sharding, steps.state)

        def place(arrays: Arrays) -> Any:
            return jax.device_put(rebuild(steps.state, arrays), shardings)

        placed = jax.device_put(dict(batch), steps.batch)
        lowered = steps.train.lower(place(before), placed)
        if length is None:
            compiled = lowered.compile()
        else:
            with uncached():
                compiled = lowered.compile()
            with project.measuring("collectives", "reading what the step sends"):
                tell_sent(project, compiled.as_text(), mesh, length)
        state, values = compiled(place(before), placed)
        after, near, scalars = host(project, state), dict[str, Any](), dict[str, Any]()
        if alone:
            nudged = {k: nudge(x) if k.startswith("params/") else x for k, x in before.items()}
            state, scalars = compiled(place(nudged), placed)
            near = host(project, state)
        return Outcome(jax.device_get(values), before, after, near, jax.device_get(scalars))


def host(project: Project, tree: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a state, by name."""
    leaves = project.runtime("base.state").flatten(tree)
    return {path: np.asarray(leaf) for path, leaf in leaves.items()}


@contextlib.contextmanager
def uncached() -> Iterator[None]:
    """Compile anew: a program of the cache names the lines of the file that it was compiled of."""
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
        compilation_cache.reset_cache()


def nudge(x: np.ndarray) -> np.ndarray:
    """Return an array with each number a little larger or smaller."""
    if not np.issubdtype(x.dtype, np.floating):
        return x
    return x * (1 + NUDGE * np.cos(np.arange(x.size).reshape(x.shape))).astype(x.dtype)


def tell_fault(project: Project, what: str, how: str) -> None:
    """Tell how a step over devices is not that on one; "" for not at all."""
    if what:
        project.fault("sharded", project.package, f"{what}{how}")


def difference(project: Project, one: Outcome, whole: Outcome) -> str:
    """Return where a step over devices is not that on one: of its scalars, then of its state; "" if nowhere."""
    devices = f"{math.prod(project.mesh.values())} devices"
    for name, value in ((k, float(x)) for k, x in one.values.items()):
        other, nudged = float(whole.values[name]), float(one.near_values[name])
        if not abs(value - other) <= CLOSE * max(abs(value), CANCELLED) + NEAR * abs(
            nudged - value
        ):
            return f"{name} of a step is {other:.6g} over {devices}, {value:.6g} on one"
    shares, scales = dict[str, float](), largest(project, one)
    for path, array in one.after.items():
        if not np.issubdtype(array.dtype, np.floating):
            continue
        apart, near = whole.after[path] - array, one.near[path] - array
        if path.startswith(("params/", "ema/")):
            most = MOVED * norm(array - one.before[path]) + NEAR * norm(near)
            shares[path] = norm(apart) / (most + TINY)
        else:
            most = CLOSE * scales[path] + NEAR * np.abs(near).max(initial=0)
            shares[path] = float(np.abs(apart).max(initial=0)) / (most + TINY)
    worst = max(shares, key=lambda path: shares[path], default="")
    sound = not worst or all(share <= 1 for share in shares.values())
    return "" if sound else f"{worst} after a step over {devices} is not that on one"


def norm(x: np.ndarray) -> float:
    """Return the Euclidean length of all of an array."""
    return float(np.linalg.norm(x.ravel().astype(np.float64)))


def largest(project: Project, one: Outcome) -> dict[str, float]:
    """Return path of an array of the state -> the largest number of those of its kind, such as first moments."""
    owner = project.runtime("base.state").owner
    params = {path.partition("/")[2] for path in one.before if path.startswith("params/")}
    kinds = {path: path.removesuffix(owner(path.partition("/")[2], params)) for path in one.after}
    scales = dict[str, float]()
    for path, array in one.after.items():
        if np.issubdtype(array.dtype, np.floating):
            kind = kinds[path]
            scales[kind] = max(scales.get(kind, 0.0), float(np.abs(array).max(initial=0)))
    return {path: scales.get(kind, 0.0) for path, kind in kinds.items()}
