"""The fastest way to train a model on a machine that fits its memory, by an estimate; then what its compiler says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from redco_plan import CONTEXT, STAGE

from redco_new.errors import RedcoError
from redco_fit.target import Target, parse_target
from redco_new.request import COMPUTE, HOST, Request
from redco_new.render.template import Template
from redco_fit.search.candidates import Planner, Trial, price
from redco_fit.search.memory import state_bytes
from redco_fit.search.meshes import divisors, is_near, meshes_of, rare_meshes
from redco_fit.search.reasons import slower_by, with_reason
from redco_fit.search.work import layers_of

Progress = Callable[[str], None]
# Examples a device of a step, where no batch is given: as many as a published recipe of pre-training has at 4,096
# tokens (Llama 2: 4 million tokens on 1,000 devices and more).
ROWS = 2
# Without a batch that is given, larger ones are tried, up to so many times that, while an example takes less by this share.
MOST_GROWN, WORTH = 8, 0.01
# What the estimate of the memory was above the compiler's at most: tests/tools/tables/estimates.md.
CAREFUL = 1.6
MOST_REPEATS = 8  # of stages: the bubble is an eighth by then, and each sends as much as the first
MOST_MICRO = 64  # micro-batches: each sends and gathers all parameters anew


@dataclass(frozen=True)
class Search:
    """The outcome of a search.

    trials: all that was tried, the one that is chosen first, then by seconds; none is chosen where none fits.
    fewest: the least devices that the batch fits on, of halves of the machine; None where it fits on none.
    seconds: that the search took.
    assumed: tokens of an example, where the batch was not given; 0 where it was.
    coded: the best, with layers that multiply in 8 bits, where that was not asked for and is faster.
    hosted: the best with moments in the hosts' memory, where that was not asked for and nothing fits without.
    """

    target: Target
    trials: tuple[Trial, ...]
    fewest: Trial | None
    fewest_target: Target | None
    seconds: float
    assumed: int = 0
    coded: Trial | None = None
    hosted: Trial | None = None

    @property
    def best(self) -> Trial | None:
        """The fastest that fits."""
        first = self.trials[0] if self.trials else None
        return first if first is not None and not first.reason else None

    @property
    def fitting(self) -> list[Trial]:
        """All that fit by the estimate, those first that take the least time for an example."""
        limit = self.target.hardware.usable
        return sorted((t for t in self.trials if 0 < t.peak <= limit), key=lambda t: t.rank)

    @property
    def near(self) -> list[Trial]:
        """All that do not, and that their compiler may still take, the smallest first."""
        limit = self.target.hardware.usable
        near = (t for t in self.trials if t.state <= limit < t.peak <= CAREFUL * limit)
        return sorted(near, key=lambda t: t.peak)

    @property
    def nearest(self) -> Trial | None:
        """The smallest of those whose memory was of interest."""
        limit = self.target.hardware.usable
        weighed = (t for t in self.trials if t.peak)
        return min(weighed, key=lambda t: (t.state > limit, t.peak), default=None)


def search(
    request: Request,
    target: Target,
    template: Template,
    batch: int | None = None,
    length: int | None = None,
    progress: Progress = lambda step: None,
) -> Search:
    """Return the fastest mesh, options and micro-batches of a model on `target`, and all that lost to it.

    batch: examples of a step over all devices; ROWS a device by default.  length: tokens of an example.
    Raises RedcoError for a class of the user's own, whose memory no estimate here knows.
    """
    start = time.monotonic()
    if request.own:
        what = (
            f"the activations of {request.model} have no names that an estimate could know them by"
        )
        raise RedcoError("--search", what, "give --mesh: redco fit compiles it")
    target.check_products(request.products)
    planner, rows = Planner(request, template, length), batch or ROWS * target.devices
    trials = _search(planner, target, rows, progress)
    few, few_target = _fewest(planner, target, rows, trials, progress)
    if batch is None and trials and not trials[0].reason:
        trials = _grown(planner, target, trials, progress)
    length = (length or planner.length_of(trials)) if batch is None and trials else 0
    coded = _in_8_bits(planner, target, trials[0]) if trials and not trials[0].reason else None
    hosted = _with_hosts(planner, target, rows, progress) if trials and trials[0].reason else None
    seconds = time.monotonic() - start
    return Search(target, tuple(trials), few, few_target, seconds, length, coded, hosted)


def _in_8_bits(planner: Planner, target: Target, best: Trial) -> Trial | None:
    """Return the best with products in 8 bits, where a project of the request may have them, and they are faster."""
    if not target.products or planner.request.products != COMPUTE:
        return None
    request = replace(planner.request, products=target.products)
    try:
        one = price(Planner(request, planner.template, planner.length), target, best)
    except RedcoError:  # such as that of a recipe that needs all bits
        return None
    return one if one is not None and one.seconds < best.seconds else None


def _with_hosts(planner: Planner, target: Target, rows: int, progress: Progress) -> Trial | None:
    """Return the best with what the optimizer keeps in the hosts' memory, if one fits, and a request may have that."""
    request = replace(planner.request, optimizer_memory=HOST)
    try:
        trials = _search(Planner(request, planner.template, planner.length), target, rows, progress)
    except RedcoError:  # such as that of an optimizer that needs all parameters together
        return None
    return trials[0] if trials and not trials[0].reason else None


def _search(planner: Planner, target: Target, batch: int, progress: Progress) -> list[Trial]:
    """Return the trials on one machine, the best first."""
    limit, done, best = target.hardware.usable, [], None
    for trial in _plain(planner, target, batch, progress):
        if best and trial.rank >= best.rank:
            done.append(with_reason(trial, best, limit))
            continue
        progress(f"weighing {trial.name}")
        for option in _options(planner, target, trial):
            fits = 0 < option.peak <= limit
            if fits and (best is None or option.rank < best.rank):
                best, option = option, best
            if option is not None:
                done.append(option)
            if fits:
                break
    rest = sorted((with_reason(one, best, limit) for one in done), key=lambda one: one.seconds)
    return [best, *rest] if best else rest


def _plain(planner: Planner, target: Target, batch: int, progress: Progress) -> Iterator[Trial]:
    """Yield each mesh without options, with the least seconds that it can have: those of RARE axes last, others by these."""
    experts = _experts(planner, target)
    for meshes in (meshes_of(target, experts), rare_meshes(target, experts)):
        trials = []
        for mesh in meshes:
            trial = Trial(mesh, 0, False, batch)
            progress(f"planning {trial.name}")
            if around := _with_attention(planner, target, trial):
                trials.append(replace(around[0], peak=0))
        yield from sorted(trials, key=lambda one: one.seconds)


def _with_attention(planner: Planner, target: Target, trial: Trial) -> list[Trial]:
    """Return what `_around` does; in a ring, where devices of `context` have no heads each, or not in one host."""
    context = trial.mesh.get(CONTEXT, 1)
    near = context == 1 or is_near(context * trial.mesh["model"], target)
    if near and (found := _around(planner, target, trial)):
        return found
    return _around(planner, target, replace(trial, ring=True)) if context > 1 else []


def _around(planner: Planner, target: Target, trial: Trial) -> list[Trial]:
    """Return a trial with each number of repeats that its stages can have, the fastest first, with the least seconds it can have."""
    if (model := planner.plan(trial)) is None:
        return []
    dims = model.plan.classes.parameter_dims
    layers = max((layers_of(model.plan, one) for one in dims), default=1)
    own = layers // trial.mesh.get(STAGE, layers)
    some = [replace(trial, repeats=n) for n in divisors(own) if n <= MOST_REPEATS]
    priced = (price(planner, target, one, exact=False) for one in some)
    return sorted((one for one in priced if one is not None), key=lambda one: one.seconds)


def _experts(planner: Planner, target: Target) -> int:
    """Return how many experts a layer of the model has; 1 where it has none."""
    mesh = {"data": 1, "fsdp": 1, "expert": 1, "model": 1}
    model = planner.plan(Trial(mesh, 0, False, 1))
    assert model is not None, "every model can be whole on one device"
    classes = model.plan.classes
    sizes = [classes.sizes[node] for node, label in classes.labels.items() if label == "experts"]
    return max((max(one) for one in sizes), default=1)


def _options(planner: Planner, target: Target, trial: Trial, count: int = 1) -> Iterator[Trial]:
    """Yield a mesh with more and more of what spares memory: what costs no time first; from `count` micro-batches on."""
    plain = [trial]
    if trial.mesh["data"] > 1:
        plain.append(replace(trial, zero=1))
    if trial.mesh["model"] > 1 and CONTEXT not in trial.mesh:
        plain.append(replace(plain[-1], sequence_parallel=True))
    repeats = [one.repeats for one in _around(planner, target, trial)] or [1]
    variants = [replace(one, repeats=n) for one in plain for n in repeats]
    while count <= MOST_MICRO:
        for option in variants:
            one = price(planner, target, replace(option, micro_batches=count))
            if one is None and option is variants[0]:
                return
            if one is not None:
                yield one
        least = planner.plan(variants[-1])
        if least is None or state_bytes(least, count) > target.hardware.usable:
            return  # micro-batches spare activations, and no state
        count, variants = 2 * count, variants[-len(repeats) :]


def _grown(
    planner: Planner, target: Target, trials: list[Trial], progress: Progress
) -> list[Trial]:
    """Return the trials with those of larger batches on the best mesh, as long as an example takes less time."""
    best, *others = trials
    while best.batch < MOST_GROWN * trials[0].batch:
        progress(f"trying {2 * best.batch} examples")
        one = price(planner, target, replace(best, batch=2 * best.batch))
        if one is None:
            break
        if one.peak > target.hardware.usable or one.pace > best.pace * (1 - WORTH):
            others.append(with_reason(one, best, target.hardware.usable))
            break
        others.append(replace(best, reason=slower_by(best, one)))
        best = one
    return [best, *others]


def _fewest(
    planner: Planner, target: Target, batch: int, trials: list[Trial], progress: Progress
) -> tuple[Trial | None, Target | None]:
    """Return the fewest devices that the batch fits on, of halves of the machine, and how."""
    limit = target.hardware.usable
    fitting = [one for one in trials if 0 < one.peak <= limit]
    few = (min(fitting, key=lambda one: one.seconds), target) if fitting else (None, None)
    while few[0] is not None and (half := _half(few[1])) is not None:
        progress(f"trying {half.name}")
        one = next(_least(planner, half, batch, few[0].micro_batches), None)
        if one is None:
            break
        few = (one, half)
    return few


def _least(planner: Planner, target: Target, batch: int, count: int) -> Iterator[Trial]:
    """Yield ways to fit on a machine, of the meshes that split the state over all devices.

    count: micro-batches that twice as many devices need, of which fewer need no less.
    """
    limit = target.hardware.usable
    for mesh in meshes_of(target, 1):
        if mesh["data"] == 1:
            trial = Trial(mesh, 0, False, batch)
            for one in _options(planner, target, trial, count):
                if one.peak <= limit:
                    yield one


def _half(target: Target | None) -> Target | None:
    """Return the machine of half as many devices; None where there is none."""
    assert target is not None, "it has been fitted"
    chips = target.devices // (2 if target.hardware.name == "7x" else 1)
    if chips % 2:
        return None
    try:
        return parse_target(f"{target.hardware.name}:{chips // 2}")
    except RedcoError:
        return None  # no slice of a TPU has so many
