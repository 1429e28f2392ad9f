"""Several models in a run: what each starts from, a teacher that is trained first, and what compares them."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.contracts import Steps
from redco_runtime.base.messages import UserError
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.run.record import Run
from redco_runtime.nn import divergence as module
from redco_runtime.loop import teacher as teaching
from redco_runtime.loop.branches import branch_of, start_several, steps_of
from redco_runtime.nn.divergence import divergence
from redco_runtime.step.branch_optimizers import by_branch
from redco_runtime.loop.teacher import with_teacher
from redco_runtime.base.state import ModelState, flatten, new_state

ROWS, PADDED = 6, 8


def steps(*trained, frozen=()):
    """Those of models with w, of 6 rows and two of padding: 1 in those that are trained, 2 in the frozen."""
    mesh = jax.sharding.get_mesh()
    names = [f"{name}/w" if name else "w" for name in (*trained, *frozen)]

    def tree(names, value):
        whole = {n: {"w": jnp.full((PADDED, 2), value).at[ROWS:].set(0)} for n in names}
        return whole.get("", whole)

    def init(key):
        model = ModelState(tree(trained, 1.0), {}, tree(frozen, 2.0))
        return new_state(model, optax.trace(0.9))

    state = jax.eval_shape(init, jax.random.key(0))
    split, whole = NamedSharding(mesh, P("model", None)), NamedSharding(mesh, P())
    placed = jax.tree.map(lambda x: x.update(sharding=split if x.ndim == 2 else whole), state)
    others = dict.fromkeys(("batch", "loss", "train", "evaluate", "predict", "options"))
    return Steps(
        state=placed,
        shapes={name: jax.ShapeDtypeStruct((ROWS, 2), jnp.float32) for name in names},
        init=init,
        start=lambda model: new_state(model, optax.trace(0.9)),
        **others,
    )


@dataclass(frozen=True)
class Settings:
    teacher: str = ""
    teacher_share: float = 0.5
    steps: int = 3
    epochs: float = 2.0
    seed: int = 0


@dataclass(frozen=True)
class Sizes:
    name: str
    vocab_size: int = 3


@dataclass(frozen=True)
class Data:
    tokenizer: str = "letters"


@dataclass(frozen=True)
class Config:
    model: Sizes = Sizes("small")
    teacher: Sizes = Sizes("large")
    data: Data = Data()
    train: Settings = Settings()


def run_of(folder, init=None):
    return Run(folder, Config(), {"model": 4}, None, init)


def save(folder, made, scale):
    """A checkpoint of a run in `folder`: what it starts from, times `scale`."""
    state = made.init(jax.random.key(0))
    state = replace(state, params=jax.tree.map(lambda x: scale * x, state.params))
    with Checkpoints(folder / "checkpoints", shapes=made.shapes) as checkpoints:
        checkpoints.save(0, state)
    return str(folder)


@pytest.mark.parametrize("kind", ["one model", "several"])
def test_each_model_starts_from_what_it_names(kind, tmp_path):
    with jax.set_mesh(make_mesh({"model": 4})):
        made = steps("student", frozen=("teacher",))
        before = steps("") if kind == "one model" else made
        source = save(tmp_path, before, 5)

        def starts(config, init):
            return {"student": (init, config.model), "teacher": (source, config.teacher)}

        state = start_several(starts)(made, run_of(tmp_path / "b"), None)
        student, teacher = state.params["student"]["w"], state.frozen["teacher"]["w"]
        assert student[:ROWS].ravel().tolist() == [1.0] * 2 * ROWS  # it names nothing
        assert teacher[:ROWS].ravel().tolist() == [5.0] * 2 * ROWS  # of several, what was trained
        assert not teacher[ROWS:].any()
        assert teacher.sharding == made.state.frozen["teacher"]["w"].sharding
        assert [*flatten(state.opt_state)] == ["trace/student/w"]


def test_a_branch_starts_as_another_does_in_arrays_of_its_own(tmp_path):
    with jax.set_mesh(make_mesh({"model": 4})):
        made = steps("policy", frozen=("reference",))
        for init, value in ((save(tmp_path, steps(""), 5), 5.0), (None, 1.0)):
            run = run_of(tmp_path / "b", init)
            start = start_several(lambda c, i: {"policy": (i, c.model), "reference": "policy"})
            state = start(made, run, None)
            policy, reference = state.params["policy"]["w"], state.frozen["reference"]["w"]
            assert policy[:ROWS].ravel().tolist() == [value] * 2 * ROWS
            np.testing.assert_array_equal(policy, reference)
            assert reference.sharding == made.state.frozen["reference"]["w"].sharding
            policy.delete()  # as a step does that takes its memory
            assert reference[0, 0] == value


ONE, TWO = {"trained": ("",)}, {"trained": ("policy",), "frozen": ("reference",)}


@pytest.mark.parametrize(
    ("before", "now"),
    [(ONE, TWO), (TWO, ONE), ({"trained": ("student",), "frozen": ("teacher",)}, TWO)],
    ids=["branches since", "no branches since", "others since"],
)
def test_a_run_of_another_recipe_is_read_as_the_model_that_it_trained(before, now, tmp_path):
    with jax.set_mesh(make_mesh({"model": 4})):
        made = steps(*before["trained"], frozen=before.get("frozen", ()))
        save(tmp_path, made, 5)
        made = steps(*now["trained"], frozen=now.get("frozen", ()))
        _, model = Checkpoints(tmp_path / "checkpoints", shapes=made.shapes).restore_model(
            made.state.model
        )
        for path, x in model.arrays.items():
            assert x[:ROWS].ravel().tolist() == [5.0] * 2 * ROWS
            assert x.sharding == made.state.model.arrays[path].sharding
        with pytest.raises(
            UserError, match="does not fit the model"
        ):  # training goes on with its own
            Checkpoints(tmp_path / "checkpoints").restore(made.state)


def test_one_branch_is_read_alone(tmp_path):
    with jax.set_mesh(make_mesh({"model": 4})):
        made = steps("policy", frozen=("reference",))
        save(tmp_path, made, 5)
        own = steps_of(made, "policy")
        _, model = Checkpoints(tmp_path / "checkpoints", shapes=own.shapes).restore_model(
            own.state.model
        )
        assert {path: float(x[0, 0]) for path, x in model.arrays.items()} == {"w": 5.0}


def test_a_source_that_is_not_there_is_that_of_a_model(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    weights = SimpleNamespace(PREFIX="", IGNORED=())
    with jax.set_mesh(make_mesh({"model": 4})), pytest.raises(UserError) as error:
        start_several(lambda config, init: {"teacher": ("no/such", config.teacher)})(
            steps("student", frozen=("teacher",)), run_of(tmp_path), weights
        )
    assert str(error.value).startswith("the teacher, as from --init no/such: ")


def test_a_branch_is_of_its_own_name():
    leaves = {"teacher/w": 1, "teachers/w": 2, "w": 3}
    assert branch_of(leaves, "teacher") == {"w": 1}


@pytest.fixture
def student(monkeypatch):
    """student(settings, **config) -> (with_teacher of a run in runs/a, the runs that are trained): no check of hooks."""
    monkeypatch.setattr(teaching, "check_run", lambda *_: None)

    def student(settings, folder=Path("runs/a"), init=None, **changes):
        config, runs = replace(Config(train=settings), **changes), []
        pipeline = SimpleNamespace(
            teaching=lambda config: replace(config, model=config.teacher), tokenizer=Tokenizer
        )
        run = Run(folder, config, {}, None, init)
        made = [steps("student", frozen=("teacher",)) if init else None]
        after = with_teacher(
            run, pipeline, None, lambda config: made[0], lambda _, run: runs.append(run)
        )
        return run, after, runs

    return student


@pytest.mark.parametrize(
    ("settings", "trained"),
    [(Settings(), 1), (Settings(teacher="letters"), 0), (Settings(teacher_share=0.0), 0)],
)
def test_a_teacher_is_trained_where_one_is_wanted_and_none_named(settings, trained, student):
    run, after, runs = student(settings)
    assert len(runs) == trained
    assert [(r.config.model.name, r.config.train.epochs) for r in runs] == [("large", 0)] * trained
    assert [(r.workdir, r.init) for r in runs] == [(Path("runs/a/teacher"), None)] * trained
    named = "runs/a/teacher" if trained else settings.teacher
    assert after == replace(run, config=replace(run.config, train=replace(settings, teacher=named)))


def test_what_does_not_fit_the_student_is_said_before_its_teacher_is_trained(
    student, tmp_path, monkeypatch
):
    with pytest.raises(UserError, match="--teacher-vocab-size: the teacher has 9 ids and its stud"):
        student(Settings(), teacher=Sizes("large", 9))
    Run(tmp_path, Config(), {}, None).save()
    with pytest.raises(UserError, match="a run of another model: name was small and is other"):
        student(Settings(), tmp_path, model=Sizes("other"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with jax.set_mesh(make_mesh({"model": 4})), pytest.raises(UserError, match="the student, as"):
        student(Settings(), tmp_path / "b", "no/such")


class Tokenizer:
    """One whose name is its vocabulary; "upper" writes as letters does, in capitals."""

    def __init__(self, name):
        self.name = name
        if name == "gone":
            raise UserError("--tokenizer: gone cannot be read: no; give another")

    def get_vocab(self):
        letters = "abc" if self.name in ("upper", "letters", "same") else self.name
        return {letter: i for i, letter in enumerate(letters)}

    def __call__(self, text):
        return {"input_ids": [ord(x) for x in (text.upper() if self.name == "upper" else text)]}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("letters", None),
        ("same", None),
        ("acb", "'b' is 2 there and 1 here"),
        ("abcd", "'d' is 3 there and None here"),
        ("upper", "texts are cut otherwise"),
        ("gone", "its tokenizer: gone cannot be read: no: choose a teacher"),
    ],
)
def test_a_teacher_has_the_tokenizer_of_its_student(name, why, student, tmp_path):
    """Or one by which the same ids mean the same tokens."""
    run = Run(tmp_path / "t", Config(data=Data(name)), {}, None)
    run.save()
    if why is None:
        student(Settings(teacher=str(run.workdir)), tmp_path / "a")
    else:
        with pytest.raises(UserError, match=rf"^--teacher: .*{why}"):
            student(Settings(teacher=str(run.workdir)), tmp_path / "a")


def plain(x, w, y, v, temperature):
    """The formula, with no chunks."""
    log_q, log_p = (jax.nn.log_softmax(a @ b / temperature) for a, b in ((x, w), (y, v)))
    return temperature**2 * (jnp.exp(log_p) * (log_p - log_q)).sum(-1)


@pytest.mark.parametrize("size", [2**30, 2 * 4 * 2 * 11])  # all at once; two positions of five
def test_divergence_is_the_formula_in_chunks_too(size, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", size)
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = [(2, 5, 3), (3, 11), (2, 5, 4), (4, 11)]
    arrays = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]

    def chunked(x, w, y, v, temperature):
        return divergence(lambda a: a @ w, x, lambda b: b @ v, y, temperature)

    np.testing.assert_allclose(chunked(*arrays, 2.0), plain(*arrays, 2.0), rtol=1e-5, atol=1e-6)
    ours, theirs = (
        jax.grad(lambda *a, f=f: f(*a, 2.0).sum(), argnums=(0, 1, 2, 3))(*arrays)
        for f in (chunked, plain)
    )
    for mine, its in zip(ours[:2], theirs[:2], strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-5)
    assert not ours[2].any() and not ours[3].any()  # the teacher learns nothing
    assert theirs[2].any() and theirs[3].any()


def test_each_branch_has_its_own_rule_and_targets_follow():
    params = {
        name: {"w": jnp.full((2,), value)}
        for name, value in zip("abt", (1.0, 2.0, 5.0), strict=True)
    }
    grads = {name: {"w": jnp.full((2,), 1.0)} for name in "abt"}
    rules = {
        "a": optax.sgd(0.1),
        "b": optax.chain(optax.clip_by_global_norm(0.5), optax.trace(0.9)),
    }
    rule = by_branch(rules, {"t": "a"}, rate=0.25)
    state = rule.init(params)
    assert not any(
        "'t'" in jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(state)
    )
    updates, _ = rule.update(grads, state, params, specs=params)
    after = optax.apply_updates(params, updates)
    np.testing.assert_allclose(after["a"]["w"], 0.9)
    np.testing.assert_allclose(after["b"]["w"], 2 + 0.5 / np.sqrt(2), rtol=1e-6)
    np.testing.assert_allclose(after["t"]["w"], 5 + 0.25 * (0.9 - 5))
