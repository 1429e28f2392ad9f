"""Rollouts by a server: one process asks, all have its answers; what tokens were drawn with goes to their places."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from redco_runtime.actors.served import Drawn, drawn_by_server, served
from redco_runtime.base.contracts import Steps
from redco_runtime.base.messages import UserError
from redco_runtime.base.state import ModelState
from redco_runtime.base.tensors import Tensor
from redco_runtime.layout.mesh import make_mesh
from rollouts import Fake
from safetensors.numpy import load_file

WEIGHTS = SimpleNamespace(
    tensors=lambda config: {"kernel": Tensor("net.weight", (1, 0))}, hf_config=lambda config: {}
)
PIPELINE = SimpleNamespace(
    encoder=lambda name: SimpleNamespace(ends=lambda stops: [1, *stops]),
    STOP_IDS=(9,),
    TEMPERATURE=1.0,
)


NOTHING = dict.fromkeys("state batch loss init start train evaluate options".split())
STEPS = Steps(
    shapes={"policy/kernel": jax.ShapeDtypeStruct((4, 3), "float32")},
    predict=lambda model, batch, key: "own",
    **NOTHING,
)


def answering(url, workdir, **changes):
    settings = {"rollouts": url, "rollout_folder": "", "rollout_deadline": 20.0, "group": 2}
    settings |= {
        "new_tokens": 3,
        "round_steps": 2,
        "stale_steps": 0,
        "importance_cap": 2.0,
    } | changes
    data, model = SimpleNamespace(tokenizer=""), SimpleNamespace(vocab_size=20, dtype="bfloat16")
    config = SimpleNamespace(train=SimpleNamespace(**settings), data=data, model=model)
    return served(STEPS, SimpleNamespace(config=config, workdir=workdir), WEIGHTS, PIPELINE).predict


def model(value=1.0):
    params = {
        "policy": {"kernel": jax.numpy.full((4, 3), value)},
        "reference": {"kernel": jax.numpy.zeros(3)},
    }
    return ModelState(params, {})


BATCH = {
    "input_ids": np.array([[5, 6], [7, 0]], np.int32),
    "mask": np.array([[True, True], [True, False]]),
}


class Engine:
    """Weights that a Fake has read, and answers that tell prompts apart."""

    def __init__(self):
        self.read = []

    def reload(self, folder):
        self.read.append((folder, load_file(f"{folder}/model.safetensors")["net.weight"]))

    def draw(self, prompt, n, most, ends):
        assert ends == [1, 9]
        return [([prompt[-1], 9], [-1.0, -0.5]), ([2, 3, 4], [-1.5] * 3)][:n]


def test_answers_and_weights(tmp_path):
    engine = Engine()
    with Fake(engine.draw, engine.reload).serving() as url:
        predict = answering(url + "/v1/", tmp_path)
        drawn = predict(model(), BATCH, jax.random.key(0))
        assert predict(model(), {"input_ids": None, "answered": None}, None) == "own"
    # Padded with what ends an answer.
    assert drawn.tokens_BGT.tolist() == [[[6, 9, 1], [2, 3, 4]], [[7, 9, 1], [2, 3, 4]]]
    assert drawn.log_prob_BGT[1].tolist() == [[-1.0, -0.5, 0.0], [-1.5] * 3]
    ((folder, weight),) = engine.read
    assert weight.dtype == "bfloat16" and weight.shape == (3, 4) and (weight == 1).all()
    assert json.loads((tmp_path / "served/0/config.json").read_text()) == {"dtype": "bfloat16"}


@pytest.mark.parametrize(
    "bound, handed, stale",
    [
        (0, 5, [0, 0, 0, 0, 0]),
        (2, 3, [0, 2, 0, 2, 0]),
        (3, 3, [0, 2, 0, 2, 0]),
        (9, 1, [0, 2, 4, 6, 8]),
    ],
)
def test_weights_are_as_old_as_they_may_be(tmp_path, bound, handed, stale):
    engine, said = Engine(), []
    fake = Fake(engine.draw, engine.reload)
    with fake.serving() as url:
        predict = answering(url, tmp_path, stale_steps=bound)
        for turn in range(5):
            said.append(predict(model(turn), BATCH, jax.random.key(turn)).stale_B[0])
    assert said == stale and len(engine.read) == handed
    newest = [turn for turn, behind in enumerate(stale) if behind == 0]
    assert [float(weight[0, 0]) for _, weight in engine.read] == newest
    assert [path.name for path in (tmp_path / "served").iterdir()] == [str(newest[-1])]
    salts = [body["cache_salt"] for path, body in fake.asked if path == "/v1/completions"]
    assert len({*salts}) == handed  # what it remembers of a prompt is of other weights


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"rollouts": "localhost:8000"}, "is no URL: give such as http://localhost:8000"),
        ({"rollout_deadline": 0.0}, "--rollout-deadline: give a number above 0"),
        ({"importance_cap": -1.0}, "--importance-cap: give a number above 0"),
        ({"stale_steps": -1}, "--stale-steps: give a number of 0 or more"),
    ],
)
def test_settings_that_no_server_can_have(tmp_path, settings, words):
    with pytest.raises(UserError, match=words):
        answering("http://127.0.0.1:9", tmp_path, **settings)


def test_without_a_url_the_project_draws(tmp_path):
    assert answering("", tmp_path)(None, BATCH, None) == "own"


ROWS = [
    {
        "input_ids": np.array([[5, 6, 4, 9, 0], [5, 6, 2, 3, 8]]),
        "answered": np.array([[0, 0, 1, 1, 0], [0, 0, 1, 1, 1]], bool),
    }
]
LOG_PROB = np.full((1, 2, 5), -1.0, np.float32)


def drawn(second, log_prob=-1.5):
    tokens = np.array([[[4, 9, 1], second]])
    return Drawn(tokens, np.full((1, 2, 3), log_prob, np.float32), np.array([4.0], np.float32))


def test_what_a_token_was_drawn_with_stands_before_it():
    (row,) = drawn_by_server(ROWS, LOG_PROB, drawn([2, 3, 8]))
    assert row["sampled"].tolist() == [[-1, -1.5, -1.5, -1, -1], [-1, -1.5, -1.5, -1.5, -1]]
    assert row["stale"] == 4


def test_what_was_put_in_the_place_of_an_answer_was_not_drawn():
    (row,) = drawn_by_server(ROWS, LOG_PROB, drawn([2, 3, 7]))
    assert row["sampled"].tolist() == [[-1, -1.5, -1.5, -1, -1], [-1] * 5]


def test_what_the_project_drew_has_its_own():
    (row,) = drawn_by_server(ROWS, LOG_PROB, np.zeros((1, 2, 3)))
    assert row["sampled"].tolist() == LOG_PROB[0].tolist() and row["stale"] == 0


@pytest.mark.parametrize("log_prob", [-2.5, np.nan])
def test_a_server_of_other_weights_is_refused(log_prob):
    with pytest.raises(UserError, match="nats from the trainer's, a token: it computes with other"):
        drawn_by_server(ROWS, LOG_PROB, drawn([2, 3, 8], log_prob))


def worker(port, process, url, folder):
    """Ask a server from two processes that have two devices each, of which the batch is split over two."""
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    with jax.set_mesh(make_mesh({"data": 2, "model": 2})):
        split = NamedSharding(jax.sharding.get_mesh(), P("data"))
        batch = {
            name: jax.make_array_from_callback(x.shape, split, x.__getitem__)
            for name, x in BATCH.items()
        }
        answers = answering(url, Path(folder))(model(), batch, jax.random.key(0))
    np.savez(f"{folder}/{process}.npz", *answers)


def test_one_of_two_processes_asks_and_both_have_its_answers(tmp_path, run_processes):
    engine = Engine()
    fake = Fake(engine.draw, engine.reload)
    with fake.serving() as url:
        run_processes(__file__, url, tmp_path)
    assert [path for path, _ in fake.asked] == ["/collective_rpc", "/v1/completions"]
    assert fake.asked[1][1]["prompt"] == [[5, 6], [7]]
    one, other = (np.load(tmp_path / f"{i}.npz") for i in range(2))
    for name in one.files:
        np.testing.assert_array_equal(one[name], other[name])
    assert one["arr_0"].tolist() == [[[6, 9, 1], [2, 3, 4]], [[7, 9, 1], [2, 3, 4]]]


if __name__ == "__main__":
    worker(*sys.argv[1:])
