"""What of a user's own data is none: one line says where it is, what is wrong, and what to do."""

import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from redco_runtime.base.messages import UserError
from redco_runtime.cluster.agreement import check_same_examples
from redco_runtime.data.chats.encoding import ChatEncoder
from redco_runtime.data.chats.examples import pack_chats
from redco_runtime.data.chats.opinions import pack_opinions
from redco_runtime.data.chats.pairs import pack_pairs
from redco_runtime.data.chats.reading import first_question
from redco_runtime.data.collating import asked_of
from redco_runtime.data.example_random import Draws
from redco_runtime.data.labels.documents import (
    TextLabels,
    WordLabels,
    labelled_examples,
    row_to_label,
)
from redco_runtime.data.pictures.captioned import read_captioned
from redco_runtime.data.pictures.framing import Framing, framing_of
from redco_runtime.data.pictures.labelled import classes_of, split_labelled, with_class_names
from redco_runtime.data.pictures.tables import read_tables
from redco_runtime.data.tokenizer import load_tokenizer

BYTES = load_tokenizer("bytes")
ENCODER = ChatEncoder(BYTES)
SETTINGS = SimpleNamespace(sequence_length=64, packing="off", held_out=0.5, data=())
ASKS = [{"role": "user", "content": "a"}]
ANSWERS = [*ASKS, {"role": "assistant", "content": "b"}]
LONG = [*ASKS, {"role": "assistant", "content": "b" * 99}]
LABELS = TextLabels(BYTES, ("x", "y"), ("text", "label"), 16)


def labelled(rows):
    return labelled_examples(SETTINGS, LABELS, 300, lambda: rows)


def named(*names):
    model, data = SimpleNamespace(num_classes=2), SimpleNamespace(class_names=names)
    run = SimpleNamespace(config=SimpleNamespace(model=model, data=data))
    return with_class_names(run, lambda config: ())


BOTH = SimpleNamespace(image_folder="a", image_data=("b.jsonl",), held_out=0.5, drawn=0)
MODEL = SimpleNamespace(image_size=8, caption_length=9, num_channels=3, num_classes=2)
REFUSED = {
    r"examples\(\) in pipeline.py: a chat has \d+ tokens, more than --sequence-length 64": partial(
        pack_chats, [ANSWERS, LONG], SETTINGS, ENCODER
    ),
    r"examples\(\) in pipeline.py: a chat has \d+ tokens, more than --sequence-l": partial(
        pack_opinions, [(ANSWERS, True), (LONG, False)], SETTINGS, ENCODER
    ),
    r"examples\(\) in pipeline.py: a pair has \d+ tokens in what is rejected": partial(
        pack_pairs, [(ANSWERS, LONG)], SETTINGS, ENCODER
    ),
    "--data names none, and a row of pipeline.py has": partial(
        labelled, [{"text": "a", "label": "z"}]
    ),
    "--prompt: has": partial(row_to_label, LABELS, {"text": 3, "label": "x"}),
    "--image-folder: give it, or --image-data, and not both": partial(
        read_captioned, BOTH, MODEL, 0
    ),
    "--image-folder: give it, or --image-data, and not": partial(classes_of, BOTH),
    "--num-channels: 2: pictures have 3 colors, or 1": partial(Framing, 8, 2),
    "--class-names: x, x: give each once": partial(named, "x", "x"),
    "--class-names: x, y, z: 3 names, and the model has 2 classes": partial(named, *"xyz"),
    "there are 1 pictures: give two at least": partial(
        split_labelled, [np.zeros((8, 8, 3))], [0], SETTINGS, MODEL, 0
    ),
    "3 classes, and the model has 2: give --num-classes": partial(
        split_labelled, [np.zeros((8, 8, 3))] * 2, [0, 2], SETTINGS, MODEL, 0
    ),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_a_configuration_or_pipeline_gives_is_refused(says):
    with pytest.raises(UserError, match=says):
        REFUSED[says]()


def test_what_is_as_it_is_to_be_is_taken():
    words = WordLabels(BYTES, ("x", "y"), ("words", "labels"), 16)
    for one in (
        LABELS.parse({"text": "a", "label": "x"}),
        words.parse({"words": ["a"], "labels": [0]}),
    ):
        assert one.ends is True and not one.again and not one.empty
    train, held_out = pack_chats([ANSWERS, ANSWERS], SETTINGS, ENCODER)
    assert len(train) == len(held_out) == 1
    assert sum(map(len, pack_opinions([(ANSWERS, True)] * 2, SETTINGS, ENCODER))) == 2
    assert sum(map(len, labelled([{"text": "a", "label": "x"}, {"text": "b", "label": 1}]))) == 2
    assert framing_of(SimpleNamespace(), MODEL) is None


@pytest.mark.parametrize("messages", [[], ANSWERS[1:], [{"role": "user", "content": " \n"}]])
def test_a_chat_that_asks_nothing_has_no_question(messages):
    with pytest.raises(ValueError, match="asks nothing"):
        first_question(messages)
    assert first_question([*ANSWERS[1:], *ASKS]) == "a"


def test_a_batch_is_not_asked_for_what_it_has_not(tmp_path):
    code = "def ask(batch, name):\n    return batch[name]\n"
    batch = {"x": 1}
    for file, name, error in (
        ("pipeline.py", "y", UserError),
        ("pipeline.py", "x", KeyError),  # of something else
        ("other.py", "y", KeyError),
    ):
        scope = {}
        exec(compile(code, str(tmp_path / file), "exec"), scope)  # noqa: S102 - of this file
        with pytest.raises(error) as raised, asked_of(batch):
            scope["ask"]({}, name)
        if error is UserError:
            assert "pipeline.py:2: asks a batch for 'y', and it has x: give" in str(raised.value)


def test_an_error_of_shapes_has_those_of_the_batch():
    with pytest.raises(ValueError) as raised, asked_of({"x": np.ones((2, 3), np.float32)}):
        np.ones(4) + np.ones(3)
    assert raised.value.__notes__[0].startswith("The batch has x float32[2, 3]: see collate()")


def test_examples_are_passed_one_epoch_after_the_other():
    draws = Draws("abc", lambda example, random: example, 0)
    assert draws.passes(0, 1, 8).tolist() == [0, 0, 1, 1, 1, 2, 2]

    class Own(list):
        def passes(self, seed, start, stop):
            return seed, start, stop

    assert Draws(Own("ab"), None, 0).passes(1, 2, 3) == (1, 2, 3)


def table(path, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return str(path)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_tables_of_pictures_that_are_none_are_named(tmp_path):
    (tmp_path / "a.png").write_bytes(b"any")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    (tmp_path / "latin.jsonl").write_bytes(b'{"image": "\xff"}')
    tables = {
        str(tmp_path): "is a folder: give it to --image-folder",
        str(tmp_path / "absent.jsonl"): "there is no such file",
        str(tmp_path / "a.png"): "give .jsonl or .parquet",
        str(tmp_path / "broken.parquet"): "broken.parquet cannot be read",
        str(tmp_path / "latin.jsonl"): "latin.jsonl cannot be read",
        table(tmp_path / "b.parquet", image=["a.png"]): "b.parquet has image, and no 'text'",
        table(tmp_path / "c.parquet", text=["a"]): "has text, and no 'image' or",
        table(tmp_path / "d.parquet", image=["a.png", "gone.png"], text=["a", "b"]): (
            "row 2: no picture, and no path of one: gone.png"
        ),
    }
    for name, says in tables.items():
        with pytest.raises(UserError, match=says):
            list(read_tables([name], "text"))


def test_a_table_has_pictures_or_their_paths(tmp_path):
    (tmp_path / "a.png").write_bytes(b"any")
    pictures = [{"bytes": b"\x89PNG", "path": "x"}, {"bytes": None, "path": "a.png"}]
    pictures += [{"bytes": b"\xff\xd8", "path": None}, {"bytes": b"GIF", "path": None}]
    name = table(tmp_path / "t.parquet", image=pictures, text=list("abcd"))
    rows = list(read_tables([name], "text"))
    assert [path.suffix for path, _, _ in rows] == [".png", ".png", ".jpg", ".img"]
    assert rows[1][0] == tmp_path / "a.png" and rows[0][0].read_bytes() == b"\x89PNG"
    assert [(value, where) for _, value, where in rows] == [
        (value, f"{name}, row {i}") for i, value in enumerate("abcd", 1)
    ]
    assert list(read_tables([name], "text")) == rows  # which are there by now


@pytest.mark.parametrize("flag", ["--image-folder", "--image-data"])
def test_broken_pictures_are_named_by_the_flag_that_names_them(tmp_path, flag):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"none")
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    tables = (str(tmp_path / "t.jsonl"),) if flag == "--image-data" else ()
    lines = [json.dumps({"file_name": x.name, "text": "a"}) for x in paths]
    for name in ("t.jsonl", "metadata.jsonl"):
        (tmp_path / name).write_text("\n".join(lines))
    folder = "" if tables else str(tmp_path)
    data = SimpleNamespace(image_folder=folder, image_data=tables, held_out=0.5, drawn=0)
    says = f"^{flag}: 1 of its pictures cannot be used"
    with pytest.raises(UserError, match=says):
        split_labelled(paths, [0, 1], data, MODEL, 0)
    with pytest.raises(UserError, match=says):
        read_captioned(data, MODEL, 0)


def test_pictures_without_a_line_are_left_out_and_said(tmp_path, capsys):
    for name in "abc":
        Image.new("RGB", (8, 8)).save(tmp_path / f"{name}.png")
    lines = [json.dumps({"file_name": f"{name}.png", "text": name}) for name in "ab"]
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    data = SimpleNamespace(image_folder=str(tmp_path), held_out=0.5, drawn=0)
    assert [*map(len, read_captioned(data, MODEL, 0))] == [1, 1]
    said = capsys.readouterr()
    assert "1 pictures without a line in metadata.jsonl are left out" in said.out + said.err


def test_of_an_iterator_no_example_is_lost_to_a_comparison():
    examples = iter([{"x": np.ones(1)}, {"x": np.zeros(1)}])
    check_same_examples(examples)
    assert len([*examples]) == 2
