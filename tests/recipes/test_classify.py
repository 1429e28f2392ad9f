"""The recipes classify-text and classify-tokens: rows with labels, what is none, entities, heads."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from recipes.pipelines import config, pipeline
from redco_runtime.base.messages import UserError, announce
from redco_runtime.nn.heads.classifier import (
    ClassifierWeights,
    classify_texts,
    classify_tokens,
    with_classifier,
)
from redco_runtime.data.labels.documents import TextLabels, WordLabels
from redco_runtime.data.labels.reading import read_text
from redco_runtime.data.labels.spans import entities, entity_f1
from redco_runtime.data.tokenizer import load_tokenizer
from redco_runtime.base.tensors import Tensor
from transformers import BertTokenizerFast

texts, words = pipeline("classify-text"), pipeline("classify-tokens")
LABELS = {"text": ("bad", "good"), "words": ("O", "B-PER", "I-PER")}
LABEL_FIELDS = {"text": "label", "words": "labels"}
LENGTH = 24


@pytest.fixture
def settings(tmp_path):
    """settings(field, *rows, **changes): a config whose --data has these rows."""

    def settings(field, *rows, **changes):
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        data = {"data": (str(tmp_path / "a.jsonl"),), "held_out_data": (), "held_out": 0.0}
        data |= {"text_field": field, "label_field": LABEL_FIELDS[field], "skip_bad_rows": 0}
        data |= {"token_folder": str(tmp_path / "tokens"), "tokenizer": "bytes"}
        data |= {"subword": "first"}
        made = config(data | {"sequence_length": LENGTH} | changes, {"vocab_size": 384})
        made.train.labels = LABELS[field]
        return made

    return settings


def test_a_text_has_the_label_of_its_row(settings):
    made = settings("text", {"text": "Nice.", "label": "good"}, {"text": "x" * 99, "label": 0})
    batch = texts.collate([*texts.examples(made)[0]])
    assert sorted(batch["label"].tolist()) == [0, 1] and batch["input_ids"].shape == (2, LENGTH)
    assert texts.count(batch) == 6 + LENGTH
    (prompt,) = texts.prompts(made, ["Nice."])
    assert load_tokenizer("bytes").decode(prompt["input_ids"][prompt["mask"]]) == "Nice.</s>"
    outputs = np.array([[0.2, 0.8], [0.6, 0.4]])
    assert texts.decode(made, outputs, [None] * 2) == ["good (0.80)", "bad (0.60)"]
    rows = [{"label": np.array([number + 1, 0])} for number in (1, 1)]
    assert texts.evaluate(made, outputs, rows) == {"accuracy": 0.5, "f1": pytest.approx(1 / 3)}
    assert texts.report(made, outputs, rows).counts.tolist() == [[0, 0], [1, 1]]


def test_the_first_token_of_a_word_learns_its_label_and_says_it(settings):
    row = {"words": ["Ann", "Lee", "ran"], "labels": ["B-PER", 2, "O"]}
    (row,) = words.examples(settings("words", row))[0]
    assert row["label"][:14].tolist() == [2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    outputs = np.zeros((1, LENGTH), int)
    outputs[0, :6] = 1, 0, 0, 0, 2, 0
    assert words.decode(settings("words"), outputs, [row]) == ["B-PER I-PER O"]


def test_all_tokens_of_a_word_may_learn_its_label_and_the_last_say_it(settings):
    row = {"words": ["Ann", "Lee", "ran"], "labels": ["B-PER", 2, "O"]}
    made = settings("words", row, subword="last")
    (row,) = words.examples(made)[0]
    assert load_tokenizer("bytes").decode(row["input_ids"][row["mask"]]) == " Ann Lee ran</s>"
    assert row["label"][:14].tolist() == [*[-2] * 3, 2, *[-3] * 3, 3, *[-1] * 3, 1, 0, 0]
    outputs = np.zeros((1, LENGTH), int)
    outputs[0, 3] = 1
    assert words.decode(made, outputs, [row]) == ["B-PER O O"]
    scores = words.evaluate(made, outputs, [row])
    assert scores == {"f1": 0.0, "accuracy": pytest.approx(2 / 3)}
    outputs[0, 7] = 2
    assert words.evaluate(made, outputs, [row]) == {"f1": 1.0, "accuracy": 1.0}
    report = words.report(made, outputs, [row])
    assert report.names == ["PER"] and report.f1.tolist() == [1.0] and report.counts is None


@pytest.mark.parametrize(
    ("field", "row", "why"),
    [
        ("text", [1], "is no object"),
        ("text", {"text": "a", "tag": 1}, "has text, tag, and no 'label': --text-field and"),
        ("text", {"text": "", "label": 0}, "has \"\" in 'text', and no text"),
        (
            "text",
            {"text": "a", "label": 2},
            "has the label 2, and --labels are bad, good, or 0 to 1",
        ),
        ("text", {"text": "a", "label": "fair"}, 'has the label "fair", and --labels are'),
        ("text", {"text": "a", "label": True}, "has the label true, and --labels are"),
        ("words", {"words": "a b", "labels": [0, 0]}, "has \"a b\" in 'words', and no list"),
        ("words", {"words": ["a"], "labels": [0, 0]}, "has 1 words and 2 labels"),
        ("words", {"words": ["a", " "], "labels": [0, 0]}, "has \" \" in 'words', and no word"),
        (
            "words",
            {"words": ["a" * 30], "labels": [0]},
            "has 32 tokens, more than --sequence-length",
        ),
    ],
)
def test_what_has_no_label_is_named_with_its_line(settings, field, row, why):
    module = {"text": texts, "words": words}[field]
    good = {"text": {"text": "a", "label": 0}, "words": {"words": ["a"], "labels": [0]}}[field]
    with pytest.raises(UserError) as error:
        module.examples(settings(field, good, row))
    assert "a.jsonl, line 2 " in str(error.value) and why in str(error.value)
    assert len(module.examples(settings(field, good, row, skip_bad_rows=1))[0]) == 1


@pytest.mark.parametrize(
    ("labels", "label", "number"),
    [
        (("bad", "good"), 1, 1),
        (("1", "2", "3"), 2, 1),  # a name, though it is a place too
        (("1", "2", "3"), 0, None),  # no name, and no place among names that are numbers
        (("-1", "0", "1"), -1, 0),
        (("0", "1"), 1, 1),
        (("none", "1", "3"), 0, 0),
        (("none", "1", "3"), 1, 1),
        (("none", "3", "1"), 3, 1),
        (("none", "3", "1"), 1, "write names"),  # the name of one, and the place of another
        (("1", "2"), "2", 1),
        (("bad", "good"), "1", None),
        (("bad", "good"), 1.0, None),
    ],
)
def test_a_number_is_a_name_where_names_are_numbers(labels, label, number):
    row = {"text": "a", "label": label}
    if isinstance(number, int):
        assert read_text(row, ("text", "label"), labels) == ("a", [number])
        return
    with pytest.raises(ValueError, match=number or "and --labels are"):
        read_text(row, ("text", "label"), labels)


def _wordpieces(folder, unk="[UNK]"):
    """A tokenizer of three words, whose normalizer leaves U+200B out."""
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "ann", "##a"]))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    tokenizer.unk_token = unk
    return tokenizer


def test_every_word_has_a_tag(tmp_path):
    tokenizer = _wordpieces(tmp_path)
    for subword in ("first", "last"):
        maker = WordLabels(tokenizer, LABELS["words"], ("words", "labels"), LENGTH, subword)
        row = {"words": ["anna", "\u200b", "ann"], "labels": [1, 2, 0]}
        ids, marks, *_ = maker.parse(row)
        assert tokenizer.convert_ids_to_tokens(ids.tolist()) == [
            *("[CLS]", "ann", "##a", "[UNK]", "ann", "[SEP]")
        ]
        assert marks[marks > 0].tolist() == [2, 3, 1]
    tokenizer.unk_token = None
    with pytest.raises(ValueError, match='the word "..200b", which gives no token'):
        maker.parse(row)


def test_a_text_without_a_token_is_none(tmp_path):
    maker = TextLabels(_wordpieces(tmp_path), LABELS["text"], ("text", "label"), LENGTH)
    with pytest.raises(ValueError, match="'text', which gives no token"):
        maker.parse({"text": "\u200b\u200b", "label": 0})


def test_a_row_has_room_for_more_than_what_frames_a_text(tmp_path):
    message = "--sequence-length: 2 tokens, and the tokenizer adds 2 to each text: give 3 at least"
    for maker, field in ((TextLabels, "text"), (WordLabels, "words")):
        with pytest.raises(UserError, match=message):
            maker(_wordpieces(tmp_path), LABELS[field], (field, "label"), 2)


def test_what_few_rows_have_and_what_is_there_twice_is_said(settings, capsys):
    rows = [{"text": text, "label": "good"} for text in ("a", "b", "a", "c")]
    held_out = {"text": "a", "label": "good"}
    made = settings("text", *rows, {"text": "d", "label": 0})
    made.train.labels = ("bad", "good", "fair")
    path = made.data.data[0].replace("a.jsonl", "b.jsonl")
    with open(path, "w") as file:
        file.write(json.dumps(held_out))
    made.data.held_out_data = (path,)
    announce.cache_clear()  # of what other tests had it say
    texts.examples(made)
    out = capsys.readouterr().out
    assert "labels: bad 1, good 5, fair 0\n" in out
    assert "of one, which is learned or scored, and never both: bad" in out
    assert "of none, which none learns: fair" in out
    assert "data: 2 rows differ from another one in nothing; 1 of 1 that are held out" in out


def classes_table(path, classes, **columns):
    """A file of Parquet as datasets writes it: of each of these columns the numbers are of `classes`."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    kinds = {name: {"names": [*classes], "_type": "ClassLabel"} for name in columns}
    lists = {k for k, (first, *_) in columns.items() if isinstance(first, list)}
    kinds |= {name: {"feature": kinds[name], "_type": "List"} for name in lists}
    table = arrow.table({"text": ["a b", "c d"], "words": [["a"], ["b"]]} | columns)
    about = {b"huggingface": json.dumps({"info": {"features": kinds}}).encode()}
    parquet.write_table(table.replace_schema_metadata(about), path)


def test_numbers_of_a_table_whose_classes_have_names_go_by_these(settings, tmp_path, capsys):
    path = str(tmp_path / "a.parquet")

    def numbers(field, classes, **columns):
        classes_table(path, classes, **columns)
        rows = (texts if field == "text" else words).examples(settings(field, data=(path,)))[0]
        marks = sorted((row["input_ids"].tolist(), row["label"].tolist()) for row in rows)
        return [[mark - 1 for mark in own if mark > 0] for _, own in marks]

    assert numbers("text", ("good", "bad"), label=[0, 1]) == [[1], [0]]
    assert numbers("text", ("bad", "good", "fair"), label=[0, 1]) == [[0], [1]]
    announce.cache_clear()
    assert numbers("text", ("neg", "pos"), label=[0, 1]) == [[0], [1]]
    said = "--labels: other names of the classes, in order: neg is bad, pos is good"
    assert said in capsys.readouterr().out
    tags = ("I-PER", "O", "B-PER")
    assert numbers("words", tags, labels=[[1], [2]]) == [[0], [1]]
    with pytest.raises(UserError, match='row 2 has the label "fair", and --labels are bad, good'):
        numbers("text", ("bad", "good", "fair"), label=[0, 2])
    with pytest.raises(UserError, match="row 2 has the label 2, and its classes are bad, good"):
        numbers("text", ("bad", "good"), label=[0, 2])
    with pytest.raises(UserError, match="row 1 has the label -1, and its classes are bad, good"):
        numbers("text", ("bad", "good"), label=[-1, 0])


@pytest.mark.parametrize("labels", [(), ("bad",), ("bad", "good", "bad")])
def test_labels_are_two_names_at_least_each_once(settings, labels):
    made = settings("text", {"text": "a", "label": 0})
    made.train.labels = labels
    with pytest.raises(UserError, match="--labels: .*: give two names at least, each once"):
        texts.prompts(made, ["a"])


@pytest.mark.slow
def test_labels_of_others_need_data(settings):
    with pytest.raises(UserError, match="--data names none, and a row .* has the label"):
        texts.examples(settings("text", data=()))


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        ("O B-a I-a O", [("a", 1, 3)]),
        ("B-a B-a I-a", [("a", 0, 1), ("a", 1, 3)]),
        ("I-a I-b B-b", [("a", 0, 1), ("b", 1, 2), ("b", 2, 3)]),
        ("O I-a O I-a", [("a", 1, 2), ("a", 3, 4)]),
        ("VERB VERB O NOUN", [("VERB", 0, 2), ("NOUN", 3, 4)]),
        # The rest as seqeval 1.2.2 has it.
        ("B-art-work B-art-work I-art-work", [("art-work", 0, 1), ("art-work", 1, 3)]),
        ("S-a S-a O I-a", [("a", 0, 1), ("a", 1, 2), ("a", 3, 4)]),
        ("B-a E-a I-a E-a", [("a", 0, 2), ("a", 2, 4)]),
    ],
)
def test_entities_are_those_of_conll(labels, spans):
    assert entities(labels.split()) == spans


def test_f1_is_of_whole_entities():
    expected = ["B-a I-a O B-b".split(), ["O"]]
    assert entity_f1(expected, ["B-a O O B-b".split(), ["O"]]) == 0.5
    assert entity_f1(expected, ["B-a I-a O B-b".split(), ["B-a"]]) == pytest.approx(4 / 5)
    assert entity_f1([["O"]], [["O"]]) == 0


def test_the_roles_of_names():
    line = ("from", "os", ".", "path", "import", "join")
    assert words.roles(line) == ["O", "B-module", "I-module", "I-module", "O", "B-module"]
    line = ("def", "area", "(", "x", ")", ":")
    assert words.roles(line) == ["O", "B-function", "O", "O", "O", "O"]
    line = ("return", "np", ".", "sin", "(", "x", ")")
    assert words.roles(line) == ["O", "B-call", "I-call", "I-call", "O", "O", "O"]


class Encoder(nnx.Module):
    """An encoder whose hidden states are the ids, twice."""

    def __init__(self):
        self.head = nnx.Param(jnp.ones(3))

    def hidden(self, input_ids_BS, mask_BS):
        return jnp.stack([input_ids_BS, mask_BS], axis=-1).astype(jnp.bfloat16)


@pytest.mark.slow
def test_a_classifier_takes_the_place_of_the_head():
    model = with_classifier(Encoder(), 2, 3, nnx.Rngs(0), pooled=True)
    assert not hasattr(model, "head") and model.pooler.kernel[...].shape == (2, 2)
    ids, mask = jnp.array([[1, 2]]), jnp.array([[True, False]])
    logits = classify_tokens(model, ids, mask)
    assert logits.shape == (1, 2, 3) and logits.dtype == jnp.float32
    pooled = jnp.tanh(model.pooler(jnp.array([[1.0, 1.0]])))
    batch = {"input_ids": ids, "mask": mask, "label": jnp.array([2])}
    expected = -jax.nn.log_softmax(model.score(pooled))[0, 2]
    np.testing.assert_allclose(texts.loss(model, batch, None)[0], expected, rtol=1e-5)
    batch["label"] = jnp.array([[-3, 0]], jnp.int16)
    losses, weights = words.loss(model, batch, None)
    assert weights.tolist() == [[1, 0]]
    np.testing.assert_allclose(losses[0, 0], -jax.nn.log_softmax(logits)[0, 0, 2], rtol=1e-5)


@pytest.mark.parametrize("pooled", [False, True])
def test_the_input_of_a_head_drops(pooled):
    """As transformers' heads do: behind the pooler, before the classes."""
    drop = nnx.Dropout(0.5, rngs=nnx.Rngs(1))
    model = with_classifier(Encoder(), 2, 2, nnx.Rngs(0), pooled=pooled, drop=drop)
    model.score.kernel[...] = jnp.eye(2)
    read = classify_texts if pooled else classify_tokens
    ids, mask = jnp.ones((100, 3), jnp.int32), jnp.ones((100, 3), bool)
    model.eval()
    still = read(model, ids, mask)
    model.train()
    drawn = np.asarray(read(model, ids, mask))
    assert 0.3 < (drawn == 0).mean() < 0.7
    np.testing.assert_allclose(drawn, np.where(drawn == 0, 0, 2 * still), rtol=1e-6)


class Body:
    """weights.py of an encoder."""

    PREFIX, IGNORED = "bert.", ("bert.pooler.*", "cls.seq_relationship.*")

    def tensors(self, config):
        return {"embed": Tensor("bert.embed"), "head/bias": Tensor("cls.bias")}

    def hf_config(self, config):
        return {"architectures": ["BertForMaskedLM"], "model_type": "bert"}


def test_files_have_it_as_those_of_transformers():
    pooled = ClassifierWeights(Body(), ("bad", "good"), pooled=True)
    assert pooled.IGNORED == ("cls.seq_relationship.*", "cls.*") and pooled.PREFIX == "bert."
    names = {path: tensor.name for path, tensor in pooled.tensors(None).items()}
    assert names["pooler/kernel"] == "bert.pooler.dense.weight" and "head/bias" not in names
    assert names["score/bias"] == "classifier.bias" and names["embed"] == "bert.embed"
    document = pooled.hf_config(None)
    assert document["architectures"] == ["BertForSequenceClassification"]
    assert document["id2label"] == {"0": "bad", "1": "good"} and document["num_labels"] == 2
    tokens = ClassifierWeights(Body(), ("O",))
    assert tokens.hf_config(None)["architectures"] == ["BertForTokenClassification"]
    assert "bert.pooler.*" in tokens.IGNORED and len(tokens.tensors(None)) == 3
