"""The optimizers of an emitted config.py, on a small network split over four devices."""

import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import jax
import jax.numpy as jnp
import jinja2
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from redco_new.generate.project_model import ProjectModel
from redco_new.models.recipes import Rate
from redco_new.render.python import print_data
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.step.optimizers import average_parameters, store_moments
from redco_runtime.layout.specs import parameter_specs, place_abstract, state_specs
from redco_runtime.base.state import ModelState, flatten, new_state

TEMPLATES = Path(__file__).parents[2] / "templates"
TEMPLATE = "project/{{ package }}/config.py.jinja"
DATA = {"data": "own", "tokenizer": "", "sequence_length": 0}
SPLIT, WHOLE = {"data": 1, "fsdp": 2, "model": 2}, {"data": 1, "fsdp": 1, "model": 1}
# Vocab 256, width 128, hidden 256: wide enough for the factors of Adafactor.
SHAPES = {"embed": {"embedding": (256, 128)}, "head": {"bias": (256,), "kernel": (128, 256)}}
SHAPES |= {"mlp": {"up": {"kernel": (2, 128, 256)}, "down": {"kernel": (2, 256, 128)}}}
PARAMS = {
    "embed/embedding": P("model", "fsdp"),
    "head/bias": P("model"),
    "head/kernel": P("fsdp", "model"),
    "mlp/up/kernel": P(None, "fsdp", "model"),
    "mlp/down/kernel": P(None, "model", "fsdp"),
}
RATES = {"adamw": 3e-3, "adafactor": 3e-3, "lion": 3e-3, "muon": 1e-2, "sgd": 5.0}
STEPS = 10


@cache
def emitted():
    """The emitted config.py of a family, without its model."""
    model = ProjectModel("Net", "Net", "Net")
    recipe = SimpleNamespace(**DATA, settings=[], rate=Rate(1e-4, "Why"))
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True)
    text = templates.get_template(TEMPLATE).render(
        package="optimized",
        model=model,
        recipe=recipe,
        layout=SimpleNamespace(saved={}),
        python=print_data,
        request=SimpleNamespace(features=("muon",), products="compute", optimizer_memory="device"),
    )
    stub, module = ModuleType("optimized.model"), ModuleType("optimized.config")
    stub.Net = type("Net", (), {})
    with mock.patch.dict(sys.modules, {stub.__name__: stub, module.__name__: module}):
        exec(compile(text, TEMPLATE, "exec"), vars(module))
    return module


def settings(algorithm="adamw", **changes):
    common = {"learning_rate": RATES[algorithm], "learning_rate_decay": "constant"}
    return emitted().Optimizer(algorithm, **(common | {"warmup_steps": 0} | changes))


def is_shape(node):
    return isinstance(node, tuple)


class Run:
    """A state and its step on a mesh, as steps.py makes them."""

    def __init__(self, optimizer, mesh, moments=None):
        jax.set_mesh(make_mesh(mesh, jax.devices()[: np.prod(list(mesh.values()))]))
        self.rule = optax.with_extra_args_support(optimizer.transform(STEPS))
        self.decay = optimizer.ema_decay
        state = jax.eval_shape(self.begin, jax.eval_shape(jax.random.key, 0))
        self.grad_specs = parameter_specs(state.params, PARAMS)
        self.specs = state_specs(state, PARAMS, moments or {})
        self.abstract = place_abstract(state, self.specs)
        self.step = jax.jit(self.train, out_shardings=(self.specs, None), donate_argnums=0)

    def begin(self, key):
        leaves, treedef = jax.tree.flatten(SHAPES, is_leaf=is_shape)
        keys = jax.random.split(key, len(leaves))
        params = [jax.random.normal(k, s) * 0.05 for k, s in zip(keys, leaves, strict=True)]
        model = ModelState(jax.tree.unflatten(treedef, params), {})
        return new_state(model, self.rule, average=self.decay > 0)

    def start(self):
        return jax.jit(self.begin, out_shardings=self.specs)(jax.random.key(0))

    def train(self, state):
        value, grads = jax.value_and_grad(loss)(state.params)
        extra = {"specs": self.grad_specs}
        changes, opt_state = self.rule.update(grads, state.opt_state, state.params, **extra)
        params = optax.apply_updates(state.params, changes)
        ema = average_parameters(state.ema, params, self.decay, state.step)
        return (
            replace(state, step=state.step + 1, params=params, opt_state=opt_state, ema=ema),
            value,
        )

    def losses(self, steps=STEPS):
        state, values = self.start(), []
        for _ in range(steps):
            state, value = self.step(state)
            values.append(float(value))
        return values, state


def loss(params):
    """Of predicting a word's successor."""
    ids = jnp.arange(64)
    x = params["embed"]["embedding"][ids]
    for layer in range(2):
        h = jax.nn.gelu(x @ params["mlp"]["up"]["kernel"][layer])
        x = x + h @ params["mlp"]["down"]["kernel"][layer]
    logits = x @ params["head"]["kernel"] + params["head"]["bias"][None]
    return optax.softmax_cross_entropy_with_integer_labels(logits, ids + 1).mean()


@pytest.fixture(autouse=True)
def no_mesh_afterwards():
    with jax.set_mesh(make_mesh(SPLIT)):
        yield


def test_every_choice_has_a_rate_here():
    kinds = emitted().Optimizer.__annotations__["algorithm"]
    assert kinds.__args__ == ("adamw", "adafactor", "lion", "muon", "sgd") and {*RATES} == {
        *kinds.__args__
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "dtype"), [*((name, "float32") for name in RATES), ("adamw", "bfloat16")]
)
def test_an_optimizer_learns_the_same_on_any_mesh(algorithm, dtype):
    optimizer = settings(algorithm, moment_dtype=dtype)
    split, state = Run(optimizer, SPLIT).losses()
    assert split[-1] < 0.9 * split[0]
    whole, _ = Run(optimizer, WHOLE).losses()
    coarse = dtype == "bfloat16" or algorithm in (
        "muon",
        "lion",
    )  # lion: the sign of what is nearly 0
    np.testing.assert_allclose(split, whole, rtol=2e-2 if coarse else 1e-4)
    moments = [leaf for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim > 1]
    if algorithm != "adafactor":
        assert {leaf.dtype.name for leaf in moments} == {dtype}


@pytest.mark.parametrize("algorithm", RATES)
def test_what_an_optimizer_keeps_is_split_as_its_parameter(algorithm):
    state = Run(settings(algorithm, ema_decay=0.9), SPLIT).abstract
    shapes = flatten(state.params)
    for path, leaf in flatten(state.opt_state).items():
        for name, spec in PARAMS.items():
            if path.endswith(f"/{name}") and leaf.shape == shapes[name].shape:
                assert leaf.sharding.spec == spec, path
        if leaf.size > 1024:
            assert not leaf.sharding.is_fully_replicated, path
    assert {path: leaf.sharding.spec for path, leaf in flatten(state.ema).items()} == PARAMS


def test_the_factors_of_adafactor_are_split_in_the_dims_that_they_have():
    moments = dict(PARAMS, **{"mlp/up/kernel": P("fsdp", None, "model")})
    for table, rows, columns in (
        ({}, P(None, "fsdp"), P(None, "model")),
        (moments, P("fsdp", None), P("fsdp", "model")),
    ):
        leaves = flatten(Run(settings("adafactor"), SPLIT, table).abstract.opt_state)
        (row,) = [leaf for path, leaf in leaves.items() if path.endswith("v_row/mlp/up/kernel")]
        (column,) = [leaf for path, leaf in leaves.items() if path.endswith("v_col/mlp/up/kernel")]
        assert (row.shape, row.sharding.spec) == ((2, 128), rows)
        assert (column.shape, column.sharding.spec) == ((2, 256), columns)


def test_adamw_is_that_of_optax_and_its_states_have_their_former_names():
    optimizer = emitted().Optimizer()
    former = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(
            optax.warmup_cosine_decay_schedule(1e-4 / 6, 1e-4, 5, STEPS, 1e-5),
            *(0.9, 0.95),
            weight_decay=0.1,
            mask=emitted().matrices,
        ),
    )
    params = {"a": {"kernel": np.full((2, 3), 0.1, np.float32), "bias": np.ones(3, np.float32)}}

    @partial(jax.jit, static_argnums=0)
    def run(rule):
        state = rule.init(params)
        for _ in range(2):
            update, state = rule.update(jax.tree.map(jnp.sin, params), state, params)
        return flatten(update), flatten(state)

    close = partial(np.testing.assert_allclose, rtol=1e-6)  # clipped by one factor, and not by two
    jax.tree.map(close, run(former), run(optimizer.transform(STEPS)))


@pytest.mark.parametrize(
    ("decay", "last"), [("constant", 1.0), ("cosine", 0.1), ("linear", 0.1), ("wsd", 0.1)]
)
def test_a_learning_rate_rises_and_decays(decay, last):
    optimizer = emitted().Optimizer(learning_rate=1.0, learning_rate_decay=decay, warmup_steps=10)
    rate = optimizer.schedule(100)
    assert float(rate(0)) == pytest.approx(1 / 11) and float(rate(10)) == 1
    assert float(rate(100)) == pytest.approx(last)
    assert float(rate(80)) == pytest.approx(
        {"constant": 1, "cosine": 0.205, "linear": 0.3, "wsd": 1}[decay], abs=0.01
    )
    assert float(optimizer.schedule(0)(0)) == 1


@pytest.mark.slow
def test_the_average_follows_the_parameters():
    values, state = Run(settings(ema_decay=0.5), SPLIT).losses(3)
    plain = Run(settings(), SPLIT)
    other, expected = plain.start(), jax.device_get(plain.start().params)
    for step in range(3):
        other, _ = plain.step(other)
        stays = min(0.5, (1 + step) / (10 + step))
        expected = jax.tree.map(
            lambda e, p, s=stays: s * e + (1 - s) * p, expected, jax.device_get(other.params)
        )
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6),
        jax.device_get(state.ema),
        expected,
    )
    assert state.predictor.params is state.ema and other.predictor.params is other.params


def test_bfloat16_refuses_a_beta2_that_it_cannot_tell_from_one():
    with pytest.raises(ValueError, match="beta2: "):
        settings(moment_dtype="bfloat16", beta2=0.999)
    rule = store_moments(optax.scale_by_adam(), "float32")
    assert rule.init({"a": jnp.ones((2, 2), jnp.bfloat16)}).mu["a"].dtype == jnp.bfloat16


@pytest.mark.parametrize("kind", ["cosine", "linear", "wsd"])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_a_schedule_ends_at_its_share_of_the_peak(kind, share):
    made = settings(learning_rate_decay=kind, final_rate=share, warmup_steps=4, learning_rate=2.0)
    rates = [float(made.schedule(20)(step)) for step in (3, 4, 20)]
    assert rates == pytest.approx([2.0 * 4 / 5, 2.0, 2.0 * share], abs=1e-6)


SCHEDULES = {  # of transformers -> what is the same here
    "linear": ("linear", 0.0, {}),
    "cosine": ("cosine", 0.0, {}),
    "constant_with_warmup": ("constant", 0.1, {}),
    "cosine_with_min_lr": ("cosine", 0.1, {"min_lr_rate": 0.1}),
    "warmup_stable_decay": ("wsd", 0.1, {"decay_type": "linear", "min_lr_ratio": 0.1}),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_that_of_transformers(name):
    """After the warm-up, whose first step has the rate 0 there, and a part of the peak here."""
    torch = pytest.importorskip("torch")
    from transformers import get_scheduler

    kind, share, options = SCHEDULES[name]
    if kind == "wsd":
        options = {**options, "num_decay_steps": 18}  # a fifth of what is left
    made = settings(learning_rate_decay=kind, final_rate=share, warmup_steps=10, learning_rate=1.0)
    rates = made.schedule(100)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = get_scheduler(name, optimizer, 10, 100, scheduler_specific_kwargs=options)
    for step in range(100):
        if step >= 10:
            own, other = float(rates(step)), optimizer.param_groups[0]["lr"]
            assert own == pytest.approx(other, abs=2e-7), step
        optimizer.step()
        theirs.step()


def test_epsilon_is_adams():
    params, grads = {"w": {"kernel": jnp.zeros((2, 2))}}, {"w": {"kernel": jnp.full((2, 2), 1e-3)}}
    rule = settings(adam_epsilon=1.0, weight_decay=0.0, learning_rate=1.0).transform(10)
    updates, _ = rule.update(grads, rule.init(params), params)
    np.testing.assert_allclose(updates["w"]["kernel"], -1e-3 / (1e-3 + 1.0), rtol=1e-5)


def test_moments_alone_are_stored_in_few_bits():
    """Not the count of steps, of which bfloat16 knows 256, nor the factors of Adafactor."""
    params = {"kernel": jnp.ones((128, 128))}
    adam = store_moments(optax.scale_by_adam(), "bfloat16").init(params)
    assert (adam.mu["kernel"].dtype, adam.count.dtype) == (jnp.bfloat16, jnp.int32)
    factored = store_moments(optax.scale_by_factored_rms(), "bfloat16").init(params)
    assert {x.dtype for x in jax.tree.leaves(factored.v_row)} == {jnp.dtype(jnp.float32)}
