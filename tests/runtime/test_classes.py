"""Names of classes, compared wherever two tables of them meet: a run that goes on, and what a run starts from."""

import json
import re
from dataclasses import dataclass, field
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from safetensors.numpy import save_file

from redco_runtime.checkpoints.lora.lora import Lora
from redco_runtime.checkpoints.lora.peft import read_adapter
from redco_runtime.checkpoints.lora.start import Frozen
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.data import classes as classes_module
from redco_runtime.data.classes import check_names, names_there, paths_by_class
from redco_runtime.base.messages import UserError
from redco_runtime.checkpoints.load import adopt, start_from
from redco_runtime.data.classes import read_heads
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.run.record import Run
from redco_runtime.base.state import ModelState, flatten, new_state
from redco_runtime.base.hf_files import Stored, open_tensors
from redco_runtime.base.tensors import Tensor, stored_there

TABLE = {
    "score/kernel": Tensor("classifier.weight", (1, 0), optional=True, classes=True),
    "score/bias": Tensor("classifier.bias", optional=True, classes=True),
    "pooler": Tensor("pooler", optional=True),
}
NEW = 7.0


@dataclass(frozen=True)
class Train:
    labels: tuple[str, ...]
    seed: int = 0


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Config:
    train: Train
    model: Nothing = field(default_factory=Nothing)
    data: Nothing = field(default_factory=Nothing)


def run_of(workdir, *labels):
    return Run(workdir, Config(Train(labels)), {"model": 2}, 4)


def test_a_run_goes_on_with_its_classes_in_their_order(tmp_path):
    run_of(tmp_path, "bad", "good").save()
    check_names(run_of(tmp_path, "bad", "good"))
    for other in (("good", "bad"), ("bad", "good", "fair")):
        with pytest.raises(UserError, match="classes of the run in .* are bad, good, and here"):
            check_names(run_of(tmp_path, *other))
    check_names(run_of(tmp_path))  # pictures, whose folders are read later


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ({"0": "bad", "1": "good"}, ("bad", "good")),
        ({"1": "good", "0": "bad"}, ("bad", "good")),
        ({"0": "LABEL_0", "1": "LABEL_1"}, ()),
        ({"0": "LABEL_0", "1": "good"}, ("LABEL_0", "good")),
        (None, ()),
    ],
)
def test_a_checkpoint_names_its_classes(tmp_path, table, names):
    (tmp_path / "config.json").write_text(json.dumps({"id2label": table}))
    assert names_there(tmp_path) == names


def test_two_classes_of_a_name_are_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "a", "1": "a"}}))
    with pytest.raises(UserError, match="names a class twice: a, a"):
        names_there(tmp_path)


def steps(classes, padded=0):
    """Those of a model of 2 features with so many classes, whose parameters are initially NEW."""
    mesh = jax.sharding.get_mesh()

    def model(more):
        score = {
            "kernel": jnp.full((2, classes + more), NEW),
            "bias": jnp.full(classes + more, NEW),
        }
        return ModelState({"score": score, "pooler": jnp.full((2,), NEW)}, {})

    def init(key):
        return new_state(model(padded), optax.identity())

    abstract = jax.eval_shape(init, 0)
    split, whole = NamedSharding(mesh, P(None, "model")), NamedSharding(mesh, P())
    places = jax.tree.map(lambda x: split if x.ndim == 2 else whole, abstract)
    shapes = jax.eval_shape(lambda: model(0)).parameters
    return SimpleNamespace(
        classes=classes_module,
        state=jax.tree.map(lambda leaf, at: leaf.update(sharding=at), abstract, places),
        shapes=shapes,
        init=jax.jit(init, out_shardings=places),
        start=jax.jit(lambda model: new_state(model, optax.identity()), out_shardings=places),
    )


def from_files(folder, classes, labels, padded):
    """What a run of these labels starts from, of a checkpoint of Hugging Face whose column i is i."""
    rows = np.arange(float(classes), dtype=np.float32)
    tensors = {"classifier.weight": np.stack([rows, rows], axis=1), "classifier.bias": rows}
    save_file(tensors | {"pooler": np.zeros(2, np.float32)}, folder / "model.safetensors")
    config, made = run_of(folder, *labels).config, steps(len(labels), padded)
    stored = Stored(folder, open_tensors(folder))
    shapes = {path: leaf.shape for path, leaf in made.shapes.items()}
    heads = read_heads(stored, TABLE, config)
    table, other = stored_there(TABLE, stored.shapes, shapes, heads.there)
    return start_from(stored, table, made, config, "", other, heads)


def from_run(folder, classes, labels, padded):
    """The same, of a run."""
    made = steps(classes, padded)
    rows = jnp.arange(float(classes + padded))
    score = {"kernel": jnp.stack([rows, rows]), "bias": rows}
    state = made.start(ModelState({"score": score, "pooler": jnp.zeros(2)}, {}))
    with Checkpoints(folder / "checkpoints", shapes=made.shapes) as checkpoints:
        checkpoints.save(3, state)
    config = run_of(folder, *labels).config
    weights = SimpleNamespace(tensors=lambda _: TABLE)
    paths = paths_by_class(weights, config)
    assert paths == {"score/kernel", "score/bias"}
    return adopt(folder / "checkpoints", steps(len(labels), padded), config, paths)[:2]


def from_adapter(folder, classes, labels, padded):
    """The same, of a head that was trained beside an adapter."""
    rows, head = np.arange(float(classes), dtype=np.float32), "base_model.model.classifier."
    tensors = {f"{head}weight": np.stack([rows, rows], axis=1), f"{head}bias": rows}
    notes = {"labels": json.dumps(["bad", "good"])}
    save_file(tensors, folder / "adapter_model.safetensors", notes)
    document = {"peft_type": "LORA", "r": 2, "lora_alpha": 4}
    (folder / "adapter_config.json").write_text(json.dumps(document))
    made, config = steps(len(labels), padded), run_of(folder, *labels).config
    frozen = Frozen(SimpleNamespace(tensors=lambda _: TABLE))
    heads = frozen._heads(folder, made, config)
    arrays = dict(made.init(0).model.arrays) | {"pooler": jnp.zeros(2)}
    like = flatten(made.state.params)
    arrays |= read_adapter(folder, Lora(2, 4.0), TABLE, made.shapes, like, {}, heads.there)
    named = heads.fill(arrays, config, folder)
    state = made.start(made.state.model.with_arrays(arrays))
    return state, [path for path in heads.there if path not in named]


def test_a_head_without_names_is_said(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    with jax.set_mesh(make_mesh({"data": 2, "model": 2})):
        from_files(tmp_path, 2, ("bad", "good"), 0)
    by_number = "classes of .*: they have no names, and are taken by number: bad, good\n"
    assert re.fullmatch(by_number, capsys.readouterr().out)


@pytest.mark.parametrize("padded", [0, 2])
@pytest.mark.parametrize("start", [from_files, from_run, from_adapter])
@pytest.mark.parametrize(
    ("labels", "columns", "said"),
    [
        (("bad", "good"), [0, 1], ""),
        (("good", "bad"), [1, 0], "taken by name: good, bad\n"),
        (("good", "fair", "so-so", "bad"), [1, NEW, NEW, 0], "as in a new model: fair, so-so\n"),
        (("x", "y"), [NEW, NEW], "as in a new model: x, y; left out: bad, good\n"),
    ],
)
def test_a_head_is_taken_by_the_names_of_its_classes(
    tmp_path, capsys, start, labels, columns, said, padded
):
    run_of(tmp_path, "bad", "good").save()
    if start is from_files:
        document = {"id2label": {"0": "bad", "1": "good"}}
        (tmp_path / "config.json").write_text(json.dumps(document))
    with jax.set_mesh(make_mesh({"data": 2, "model": 2})):
        state, random = start(tmp_path, 2, labels, padded)
        place = steps(len(labels), padded).state.params["score"]["kernel"].sharding
        assert state.params["score"]["kernel"].sharding == place
    kernel, bias = (np.asarray(state.params["score"][x]) for x in ("kernel", "bias"))
    assert kernel[:, : len(labels)].tolist() == [columns, columns]
    assert bias[: len(labels)].tolist() == columns
    assert not np.asarray(state.params["pooler"]).any()
    assert sorted(random) == (["score/bias", "score/kernel"] if columns == [NEW, NEW] else [])
    out = capsys.readouterr().out
    assert said in out and bool(said) == ("classes of" in out)
