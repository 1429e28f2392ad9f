"""The recipe seq2seq: its pairs, what the decoder sees, what the loss counts, and its scores."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import config, pipeline
from redco_runtime.errors import UserError

seq2seq = pipeline("seq2seq")
START, PAD, EOS = 7, 0, 1
S, T = 16, 8


def _config(**data):
    fields = {"source_field": "source", "target_field": "target", "prefix": "", "pairs_file": ""}
    lengths = {"sequence_length": S, "target_length": T, "held_out": 0.25}
    return config(
        fields | lengths | {"tokenizer": "bytes"} | data, {"start_id": START, "pad_id": PAD}
    )


def _ids(text):
    return [byte + 3 for byte in text.encode()]


def _write(path, *records):
    path.write_text("\n".join(map(json.dumps, records)))
    return str(path)


def test_a_pair_is_cut_padded_and_shifted():
    made = seq2seq.example(_config(prefix="to: "), "a long source", "ab")
    assert made["input_ids"].tolist() == [*_ids("to: a long sour"), EOS]
    assert made["labels"].tolist() == [*_ids("ab"), EOS, *[PAD] * (T - 3)]
    assert made["decoder_ids"].tolist() == [START, *_ids("ab"), EOS, *[PAD] * (T - 4)]
    assert made["mask"].all() and made["label_mask"].tolist() == [True] * 3 + [False] * (T - 3)
    batch = seq2seq.collate([made, seq2seq.example(_config(), "b", "a long target")])
    assert {x.shape for x in batch.values()} == {(2, S), (2, T)}
    assert batch["labels"][1].tolist() == [*_ids("a long "), EOS]
    assert {x.dtype for x in batch.values()} == {np.dtype("int32"), np.dtype("bool")}


def test_the_loss_is_of_the_tokens_of_the_target():
    class Model:
        def encode(self, ids_BS, mask_BS):
            return jnp.where(mask_BS, ids_BS, 0).sum(axis=1)[:, None, None]

        def hidden(self, decoder_ids_BT, x_B11, mask_BS):
            return (decoder_ids_BT[..., None] + x_B11) % 5.0

        def logits(self, y_BTD):
            return y_BTD * jnp.linspace(0.0, 1.0, 384)[None, None, :]

    batch = seq2seq.collate([seq2seq.example(_config(), *pair) for pair in ("ab", ("abc", "de"))])
    losses_BT, weights_BT = jax.jit(lambda b: seq2seq.loss(Model(), b, None))(batch)
    logits = Model().logits(
        Model().hidden(
            batch["decoder_ids"], Model().encode(batch["input_ids"], batch["mask"]), None
        )
    )
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["labels"][..., None], axis=-1)
    np.testing.assert_allclose(losses_BT, -picked[..., 0], rtol=1e-5)
    np.testing.assert_array_equal(weights_BT, [[1.0] * n + [0.0] * (T - n) for n in (2, 3)])


def test_pairs_come_from_a_file(tmp_path):
    records = [{"in": f"s{i}", "out": i, "other": None} for i in range(8)]
    file = _write(tmp_path / "pairs.jsonl", *records)
    train, held_out = seq2seq.examples(
        _config(pairs_file=file, source_field="in", target_field="out")
    )
    assert len(held_out) == 2 and len(train) == 6
    assert sorted(e["target"] for e in train + held_out) == [str(i) for i in range(8)]
    assert all(e["input_ids"].tolist()[:2] == _ids(f"s{e['target']}") for e in train)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"source": "a", "target": "b"}\n{"source": "a"}', "line 2: it is not an object with"),
        ('{"source": "a", "target": "b"}\n\n', "line 2: it is not an object with"),
        ("[1]", "line 1: it is not an object with 'source' and 'target'"),
        ('{"source": "a", "target": "b"}', "1 pairs: give two at least"),
    ],
)
def test_a_file_of_other_things_is_named(tmp_path, text, message):
    (tmp_path / "pairs.jsonl").write_text(text)
    with pytest.raises(UserError, match=message):
        seq2seq.examples(_config(pairs_file=str(tmp_path / "pairs.jsonl")))
    with pytest.raises(UserError, match="cannot read"):
        seq2seq.examples(_config(pairs_file=str(tmp_path / "none.jsonl")))


def test_python_has_pairs_of_its_own():
    found = seq2seq.docstrings()
    assert len(found) > 1000 and found == sorted(set(found))
    assert all(source.startswith(" ".join(target.split()[:1])) for source, target in found)
    starts = [target.split()[0] for _, target in found if target]
    assert starts.count("Return") > 100


def test_rouge_is_the_mean_over_the_examples():
    pairs = [("the cat sat", "the cat sat"), ("the cat sat", "a dog sat"), ("one", "two")]
    made = [{"target": target} for target, _ in pairs]
    length = max(len(text) for _, text in pairs)
    outputs = np.array([_ids(text) + [PAD] * (length - len(text)) for _, text in pairs])
    scores = seq2seq.evaluate(_config(), outputs, made)
    expected = {"rouge1": (1 + 1 / 3) / 3, "rouge2": 1 / 3, "rougeL": (1 + 1 / 3) / 3}
    assert scores == pytest.approx(expected | {"rougeLsum": expected["rougeL"]})
