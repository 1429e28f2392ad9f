"""The recipe mlm: what is masked, what the loss counts, and how masks are filled in."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding
from recipes.pipelines import config, pipeline
from redco_runtime.data.batches import TrainBatches
from redco_runtime.data.example_random import example_random
from redco_runtime.base.messages import UserError

mlm = pipeline("mlm")
MASK, END = 259, 1  # of the tokenizer "bytes"
LENGTH = 128


def _config(seed=0, **data):
    settings = {"text_files": (), "tokenizer": "bytes", "sequence_length": LENGTH, "held_out": 0.05}
    settings |= {"data": (), "held_out_data": (), "text_field": "text", "skip_bad_rows": 0}
    return config(settings | data, {"vocab_size": 384}, seed)


@pytest.fixture(scope="module")
def batch():
    train, held_out = mlm.examples(_config())
    assert len(train) > 10 * len(held_out) > 100
    return mlm.collate(train[:1000])


def test_a_share_of_the_tokens_is_asked_for(batch):
    asked = batch["labels"] != mlm.NOT_ASKED
    assert (asked.sum(axis=1) == round(0.15 * (LENGTH - 1))).all()
    assert batch["mask"].all() and batch["input_ids"].shape == (1000, LENGTH)
    assert (batch["input_ids"][:, -1] == END).all() and not asked[:, -1].any()
    np.testing.assert_allclose(asked[:, :-1].mean(axis=0), 0.15, atol=0.06)  # at each place alike


def test_most_are_hidden_some_swapped_some_kept(batch):
    ids, labels = batch["input_ids"], batch["labels"]
    asked = labels != mlm.NOT_ASKED
    hidden, kept = (ids == MASK) & asked, (ids == labels) & asked
    np.testing.assert_allclose(hidden.sum() / asked.sum(), 0.8 + 0.1 / 384, atol=0.01)
    np.testing.assert_allclose(kept.sum() / asked.sum(), 0.1 + 0.1 / 384, atol=0.01)
    swapped = ids[asked & ~hidden & ~kept]
    assert len(np.unique(swapped)) > 300
    assert (ids[~asked] != MASK).all()


def test_masks_follow_the_seed_the_example_and_its_pass():
    ids = np.arange(3, 103, dtype=np.int32)
    tokens = mlm.tokenizer("bytes")

    def shown(*key):
        return tuple(mlm.mask_tokens(ids, tokens, mlm.MASKED, example_random(*key))[0].tolist())

    assert shown(0, 1) == shown(0, 1, 0)
    keys = [(seed, index, number) for seed in (0, 1, -1) for index in (0, 1) for number in (0, 1)]
    assert len({shown(*key) for key in keys}) == 12


def test_a_row_has_other_masks_in_each_pass_and_a_held_out_one_the_same():
    train, held_out = mlm.examples(_config(seed=3))
    size = len(train) // 2
    settings = SimpleNamespace(seed=3, batch_size=size, steps=5)
    place = SingleDeviceSharding(jax.devices()[0])
    taken = TrainBatches(train, mlm, settings, start=0, sharding=place)
    batches = [np.asarray(batch["labels"]) for batch in taken]
    passes = {}
    for step, labels in enumerate(batches):
        for index, row in zip(taken.indices(step).tolist(), labels, strict=True):
            passes.setdefault(index, []).append((row != mlm.NOT_ASKED).tolist())
    twice = [rows for rows in passes.values() if len(rows) > 1]
    assert len(twice) > 0.9 * len(train)
    assert all(len({*map(tuple, rows)}) == len(rows) for rows in twice)
    later = TrainBatches(train, mlm, settings, start=4, sharding=place)  # resumed
    np.testing.assert_array_equal(next(later)["labels"], batches[4])
    asked = [mlm.collate(held_out[:3])["labels"] for _ in range(2)]
    np.testing.assert_array_equal(*asked)


def test_what_is_not_asked_for_weighs_nothing(batch):
    small = {name: x[:3] for name, x in batch.items()}

    class Uniform:
        def hidden(self, input_ids_BS, mask_BS):
            return jnp.zeros((*input_ids_BS.shape, 1))

        def logits(self, x_BSD):
            return jnp.zeros((*x_BSD.shape[:2], 384))

    losses, weights = mlm.loss(Uniform(), small, None)
    np.testing.assert_array_equal(weights, small["labels"] != mlm.NOT_ASKED)
    np.testing.assert_allclose(losses[weights == 1], np.log(384), rtol=1e-5)
    assert weights.dtype == jnp.float32 and weights.sum() == 3 * 19


def test_prompts_are_filled_in():
    settings = _config()
    prompts = mlm.prompts(settings, ["a[MASK]c", "[MASK]"])
    np.testing.assert_array_equal(prompts[0]["input_ids"][:5], [100, MASK, 102, END, 0])
    assert [int(prompt["mask"].sum()) for prompt in prompts] == [4, 2]
    outputs = np.full((2, LENGTH), ord("b") + 3)
    assert mlm.decode(settings, outputs, prompts) == ["abc", "b"]


def test_the_model_is_asked_for_the_likeliest_token():
    class Echo:
        def hidden(self, input_ids_BS, mask_BS):
            return jnp.where(mask_BS, input_ids_BS, 7)

        def logits(self, x_BS):
            return jax.nn.one_hot((x_BS + 1) % 384, 384)

    prompts = mlm.collate(mlm.prompts(_config(), ["a[MASK]"]))
    found = mlm.predict(Echo(), prompts, None)
    np.testing.assert_array_equal(found[0, :5], [101, 260, 2, 8, 8])


def test_accuracy_counts_what_is_asked_for():
    labels = np.array([[-1, 5, 6], [7, -1, -1]])
    outputs = np.array([[5, 5, 5], [7, 7, 7]])
    found = mlm.evaluate(_config(), outputs, [{"labels": row} for row in labels])
    assert found == {"accuracy": pytest.approx(2 / 3)}


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("no mask", r"'no mask': put \[MASK\] where a token is to be filled in"),
        ("[MASK]" + "x" * LENGTH, "130 tokens, and the model takes 128: shorten it"),
    ],
)
def test_prompts_without_a_place_are_refused(prompt, message):
    with pytest.raises(UserError, match=message):
        mlm.prompts(_config(), [prompt])


def test_texts_are_read(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abcdefg" * 100)
    train, held_out = mlm.examples(_config(text_files=(str(path),)))
    assert len(train) + len(held_out) == 700 // (LENGTH - 1)
    path.write_text("too short")
    with pytest.raises(UserError, match="the text has 9 tokens: give two blocks of 127"):
        mlm.examples(_config(text_files=(str(path),)))
    with pytest.raises(UserError, match="--sequence-length: 1 tokens, and the tokenizer adds 1"):
        mlm.examples(_config(text_files=(str(path),), sequence_length=1))
    path.write_bytes(b"a\n\xff")
    with pytest.raises(UserError, match="--text-files: cannot read .*text.txt: line 2 is not UTF"):
        mlm.examples(_config(text_files=(str(path),)))
    with pytest.raises(UserError, match="--text-files: cannot read nowhere"):
        mlm.examples(_config(text_files=("nowhere",)))


@pytest.mark.parametrize("packing", ["on", "off"])
def test_texts_of_data_are_masked_but_for_what_frames_them(tmp_path, packing):
    texts = [{"text": chr(97 + i % 26) * (5 + i % 50)} for i in range(90)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    settings = _config(
        data=(str(tmp_path / "a.jsonl"),), packing=packing, token_folder=str(tmp_path)
    )
    train, held_out = mlm.examples(settings)
    rows = [*train, *held_out]
    assert (len(rows) < 50) == (packing == "on") and len(held_out) >= 1
    batch = mlm.collate(rows)
    asked = batch["labels"] != mlm.NOT_ASKED
    original = np.where(asked, batch["labels"], batch["input_ids"])
    ends = (original == END) & batch["mask"]
    assert ends.sum() == 90 and not (asked & (ends | ~batch["mask"])).any()
    letters = (batch["mask"] & ~ends).sum(axis=1)
    assert (asked.sum(axis=1) == np.maximum(1, np.round(0.15 * letters))).all()
    assert train[3]["labels"].tolist() == mlm.examples(settings)[0][3]["labels"].tolist()
    assert len({tuple(np.flatnonzero(row)) for row in asked}) > len(rows) // 2
    assert {x.dtype for x in batch.values()} == {np.dtype("int32"), np.dtype("bool")}
