"""The emitted loop on a linear model, with the modules of its project in their places."""

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jinja2
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_new.render.imports import drop_unused_imports
from redco_runtime.step.gradients import mean_and_gradients, weighted_sum
from redco_runtime.step.guard import take_step
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.base.state import ModelState, new_state

MESH = {"data": 2, "fsdp": 1, "model": 2}
PROJECT = Path(__file__).parents[1] / "templates" / "project"


@cache
def train_source():
    """The emitted train.py of a class of the user's own."""
    text = (PROJECT / "{{ package }}" / "train.py.jinja").read_text()
    request, model = SimpleNamespace(lora=None, features=("profile",)), SimpleNamespace(
        title="Net",
        own_class="Net",
        imported=False,
        branch="",
        labels="",
        modules={},
        weights="weights",
        checkpoint="",
    )
    recipe = SimpleNamespace(teacher=False, actors=False, tokenized=False)
    layout = SimpleNamespace(first=SimpleNamespace(trial="--virtual-devices 4"))
    facts = {"package": "net", "request": request, "model": model, "recipe": recipe}
    facts["layout"] = layout
    return drop_unused_imports(
        jinja2.Template(text, undefined=jinja2.StrictUndefined).render(facts)
    )


@dataclass(frozen=True)
class Model:
    width: int = 4


@dataclass(frozen=True)
class Data:
    sample_prompts: tuple[str, ...] = ("p",)


@dataclass(frozen=True)
class Train:
    steps: int = 6
    batch_size: int = 4
    micro_batches: int = 1
    log_every: int = 1
    eval_every: int = 3
    save_every: int = 2
    keep_every: int = 0
    keep: int = 2
    seed: int = 0
    on_nan: str = "stop"
    max_skips: int = 1
    step_timeout: float = 0.0
    silence: float = 120.0
    spike: float = 0.0
    log: tuple[str, ...] = ()
    profile: str = ""


@dataclass(frozen=True)
class Config:
    model: Model = field(default_factory=Model)
    data: Data = field(default_factory=Data)
    train: Train = field(default_factory=Train)


def examples(n):
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(size=4).astype(np.float32)} for _ in range(n)]


PIPELINE = SimpleNamespace(
    examples=lambda config: (examples(10), examples(5)),
    prompts=lambda config, texts: examples(len(texts)),
    collate=lambda rows: {"x": np.stack([row["x"] for row in rows])},
    loss=lambda model, batch, rngs: 0.0,
    predict=lambda model, batch, rngs: 0.0,
    decode=lambda config, outputs, examples: [f"{value:.3f}" for value in outputs],
)


def loss(model, batch, key):
    losses = jnp.square(batch["x"] @ model.params["w"] - 1.0)
    return losses, jnp.ones_like(losses)


def new(w):
    return new_state(ModelState({"w": w}, {}), optax.identity())


@contextmanager
def make_steps(spike=0.0):
    traced = []
    with jax.set_mesh(make_mesh(MESH)):
        mesh = jax.sharding.get_mesh()
        rows, whole = NamedSharding(mesh, P(("data", "fsdp"))), NamedSharding(mesh, P())

        def train(state, batch):
            traced.append(1)
            value, grads, _ = mean_and_gradients(
                lambda model, *part: (loss(model, *part), model.variables),
                *(state.model, batch, jax.random.key(0), 1),
            )
            params = jax.tree.map(lambda p, g: p - 0.1 * g, state.params, grads)
            values = {"loss": value, "learning_rate": 0.1, "grad_norm": jnp.abs(grads["w"]).sum()}
            return take_step(state, {"params": params}, values, spike)

        abstract = jax.tree.map(
            lambda leaf: leaf.update(sharding=whole), jax.eval_shape(new, jnp.zeros(4))
        )
        yield SimpleNamespace(
            traced=traced,
            options={},
            generation=None,
            classes=None,
            rows=("data", "fsdp"),
            state=abstract,
            shapes=abstract.params,
            batch=rows,
            loss=loss,
            init=jax.jit(lambda key: new(jnp.zeros(4)), out_shardings=whole),
            start=jax.jit(lambda model: new(model.params["w"]), out_shardings=whole),
            train=jax.jit(train, in_shardings=(whole, rows), out_shardings=whole),
            evaluate=jax.jit(lambda p, b, valid: weighted_sum(loss(p, b, None), valid)),
            predict=jax.jit(lambda p, b, key: b["x"] @ p.params["w"], out_shardings=whole),
        )


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
