"""The recipe seq2seq: its pairs, what the decoder sees, what the loss counts, and its scores."""

import json
import sys
from types import ModuleType, SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import config, pipeline
from redco_runtime.base.messages import UserError
from redco_runtime.data.pairs import scores
from redco_runtime.data.pairs.documents import PairMaker
from redco_runtime.data.pairs.scores import rouge

seq2seq = pipeline("seq2seq")
START, PAD, EOS = 7, 0, 1
S, T = 16, 8


def _config(**data):
    fields = {"source_field": "", "target_field": "", "prefix": "", "data": ()}
    fields |= {"held_out_data": (), "skip_bad_rows": 0, "token_folder": ""}
    lengths = {"sequence_length": S, "target_length": T, "held_out": 0.25}
    return config(
        fields | lengths | {"tokenizer": "bytes"} | data,
        {"start_id": START, "pad_id": PAD, "vocab_size": 384},
    )


def _ids(text):
    return [byte + 3 for byte in text.encode()]


def _write(path, *records):
    path.write_text("\n".join(map(json.dumps, records)))
    return str(path)


def _example(config, *texts):
    return seq2seq.example(config, *seq2seq.ids_of(config, *texts))


def test_a_pair_is_cut_padded_and_shifted():
    made = _example(_config(prefix="to: "), "a long source", "ab")
    assert made["input_ids"].tolist() == [*_ids("to: a long sour"), EOS]
    assert made["labels"].tolist() == [*_ids("ab"), EOS, *[PAD] * (T - 3)]
    assert made["decoder_ids"].tolist() == [START, *_ids("ab"), EOS, *[PAD] * (T - 4)]
    assert made["mask"].all() and made["label_mask"].tolist() == [True] * 3 + [False] * (T - 3)
    batch = seq2seq.collate([made, _example(_config(), "b", "a long target")])
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

    batch = seq2seq.collate([_example(_config(), *pair) for pair in ("ab", ("abc", "de"))])
    losses_BT, weights_BT = jax.jit(lambda b: seq2seq.loss(Model(), b, None))(batch)
    logits = Model().logits(
        Model().hidden(
            batch["decoder_ids"], Model().encode(batch["input_ids"], batch["mask"]), None
        )
    )
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["labels"][..., None], axis=-1)
    np.testing.assert_allclose(losses_BT, -picked[..., 0], rtol=1e-5)
    np.testing.assert_array_equal(weights_BT, [[1.0] * n + [0.0] * (T - n) for n in (2, 3)])


ROWS = {
    "source and target": lambda a, b: {"source": a, "target": b, "other": None},
    "document and summary": lambda a, b: {"summary": b, "document": a},
    "a translation": lambda a, b: {"translation": {"en": a, "de": b}},
    "named": lambda a, b: {"source": 1, "out": b, "in": a},
}


@pytest.mark.parametrize("kind", ROWS)
def test_pairs_come_from_a_file_and_are_tokenized_once(tmp_path, monkeypatch, kind):
    file = _write(tmp_path / "a.jsonl", *(ROWS[kind](f"s{i}" * i, str(i)) for i in range(1, 9)))
    names = {"source_field": "in", "target_field": "out"} if kind == "named" else {}
    settings = _config(data=(file,), token_folder=str(tmp_path), prefix="x", **names)
    train, held_out = seq2seq.examples(settings)
    assert len(held_out) == 2 and len(train) == 6
    rows = [*train, *held_out]
    expected = {i: _example(settings, f"s{i}" * i, str(i)) for i in range(1, 9)}
    for row in rows:
        same = expected.pop(row["labels"][0] - _ids("0")[0])
        assert all(np.array_equal(row[name], same[name]) for name in (row.keys() | same.keys()))
    assert not expected
    monkeypatch.setattr(PairMaker, "__call__", None)
    again, _ = seq2seq.examples(settings)
    np.testing.assert_array_equal(again[3]["input_ids"], rows[3]["input_ids"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"source": "a"}', "line 3 has source, and a pair has 'source' and 'target'; 'document'"),
        ('{"source": "a", "target": 3}', "line 3 has 3 in 'target', and no text"),
        ('{"source": ', "line 3 is not JSON"),
        ("3", "line 3 is no object: 3"),
    ],
)
def test_what_is_no_pair_is_named(tmp_path, text, message):
    pairs = [json.dumps({"source": "a", "target": "b"})] * 2
    (tmp_path / "a.jsonl").write_text("\n".join([*pairs, text]))
    settings = {"data": (str(tmp_path / "a.jsonl"),), "token_folder": str(tmp_path / "tokens")}
    with pytest.raises(UserError, match=message):
        seq2seq.examples(_config(**settings))
    assert len(seq2seq.examples(_config(**settings, skip_bad_rows=1))[0]) == 1


def test_a_target_has_room_for_a_token(tmp_path):
    with pytest.raises(UserError, match="--target-length: 1 tokens, and the tokenizer adds 1 to"):
        seq2seq.examples(_config(target_length=1))


def test_python_has_pairs_of_its_own():
    found = seq2seq.docstrings()
    assert len(found) > 1000 and found == sorted(set(found))
    assert all(source.startswith(" ".join(target.split()[:1])) for source, target in found)
    starts = [target.split()[0] for _, target in found if target]
    assert starts.count("Return") > 100


def test_rouge_is_the_mean_over_the_examples_of_stems_and_of_sentences():
    pairs = [("the cat sat", "the cats sat"), ("the cat sat", "a dog sat"), ("one", "two")]
    settings = _config(target_length=16)
    made = [_example(settings, "", target) for target, _ in pairs]
    length = max(len(text) for _, text in pairs)
    outputs = np.array([_ids(text) + [PAD] * (length - len(text)) for _, text in pairs])
    found = seq2seq.evaluate(settings, outputs, made)
    found.pop("bleu", None)  # where sacrebleu is installed
    expected = {"rouge1": (1 + 1 / 3) / 3, "rouge2": 1 / 3, "rougeL": (1 + 1 / 3) / 3}
    assert found == pytest.approx(expected | {"rougeLsum": expected["rougeL"]})
    turned = rouge(["A b c. D e f."], ["D e f. A b c."])
    assert turned["rougeL"] == 0.5 and turned["rougeLsum"] == 1.0


def test_bleu_is_that_of_sacrebleu(monkeypatch):
    module = ModuleType("sacrebleu")
    module.corpus_bleu = lambda texts, references: SimpleNamespace(
        score=100.0 * (texts == ["a", "b"] and references == [["b", "c"]])
    )
    monkeypatch.setitem(sys.modules, "sacrebleu", module)
    scores._corpus_bleu.cache_clear()
    assert scores.bleu(["b", "c "], [" a", "b"]) == {"bleu": 100.0}
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    scores._corpus_bleu.cache_clear()
    assert scores.bleu(["b"], ["a"]) == {}
    scores._corpus_bleu.cache_clear()


def test_a_source_that_is_cut_is_said(capsys):
    (row,) = seq2seq.prompts(_config(), ["a source that is long"])
    assert row["mask"].all() and row["input_ids"][-1] == EOS
    assert capsys.readouterr().out == f"--prompt: its first {S} tokens are read, of 22\n"
    seq2seq.prompts(_config(), ["short"])
    assert not capsys.readouterr().out
