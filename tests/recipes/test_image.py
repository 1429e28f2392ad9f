"""The recipe image: digits, a folder of one's own, pictures that are moved, the loss, and what is said of a picture."""

import json
import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
import transformers
from PIL import Image
from generated import run
from pyarrow import parquet
from recipes.pipelines import config, pipeline
from redco_runtime.base.messages import UserError, announce
from redco_runtime.data.pictures import copies
from redco_runtime.data.pictures import parquet as unpacking
from redco_runtime.data.pictures.labelled import with_class_names
from redco_runtime.data.pictures.shifted import Labelled, shift_pictures
from redco_runtime.loop import evaluated_pictures
from redco_runtime.loop.scoring import evaluated_run, examples_of
from redco_runtime.run.record import Run
from redco_runtime.base.class_names import name_labels
from transformers import ViTConfig, ViTForImageClassification

from redco_new.project.create import create_project
from redco_new.request import Request

image = pipeline("image")
FRAMING = {"resize": (), "resample": "bilinear", "mean": (0.5,), "std": (0.5,)}
MODEL = {"image_size": 32, "num_channels": 3, "num_classes": 10}


def _config(seed=0, model=MODEL, **data):
    settings = {
        "image_folder": "",
        "image_data": (),
        "held_out": 0.2,
        "shift": 1,
        "class_names": (),
    }
    return config(settings | FRAMING | data, model, seed)


def _folder(path, **classes):
    """A folder of one's own: {class: pixels of its pictures}."""
    for name, arrays in classes.items():
        (path / name).mkdir()
        for i, array in enumerate(arrays):
            np.save(path / name / f"{i}.npy", array)
    return _config(image_folder=str(path))


def test_digits_are_learned_from_moved_and_held_out_as_they_are():
    train, held_out = image.examples(_config())
    assert (len(train), len(held_out)) == (1438, 359)
    batch = image.collate([*held_out])
    assert batch["pixels"].shape == (359, 32, 32, 3) and batch["pixels"].dtype == np.uint8
    assert np.bincount(batch["label"], minlength=10).min() > 20
    again, other = (image.examples(_config(seed))[1] for seed in (0, 1))
    np.testing.assert_array_equal(batch["label"], again.labels)
    assert (batch["label"] != other.labels).any()
    both = {train.examples[i]["pixels"].tobytes() for i in range(1438)} & {
        x.tobytes() for x in batch["pixels"]
    }
    assert not both


def test_a_picture_is_moved_anew_in_each_pass(tmp_path):
    pixels = np.arange(1, 26, dtype=np.uint8).reshape(5, 5, 1)
    np.save(tmp_path / "x.npy", pixels)
    examples = shift_pictures(Labelled([tmp_path / "x.npy"] * 2, [0, 1], 5, 1), 1, 0)
    taken = [[examples.take(place, number) for number in range(60)] for place in (0, 1)]
    assert [[*{int(one["label"]) for one in some}] for some in taken] == [[0], [1]]
    inner = [[one["pixels"][1:4, 1:4].tobytes() for one in some] for some in taken]
    ways = {pixels[i : i + 3, j : j + 3].tobytes() for i in range(3) for j in range(3)}
    assert {*inner[0]} == {*inner[1]} == ways and inner[0] != inner[1]
    corner = next(one["pixels"] for one in taken[0] if one["pixels"][1, 1] == 1)
    assert corner[:2, :2].tolist() == [[[1], [1]], [[1], [1]]]  # the edge again


def test_a_folder_of_ones_own(tmp_path):
    arrays = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    folder = _folder(tmp_path, b=arrays[:3], a=arrays[3:]).data.image_folder
    settings = _config(image_folder=folder, shift=0)
    (tmp_path / "a" / "notes.txt").write_text("not a picture")
    train, held_out = image.examples(settings)
    assert (len(train), len(held_out)) == (4, 1)
    some = [*(train[i] for i in range(4)), *held_out]
    pairs = {(one["pixels"].tobytes(), int(one["label"])) for one in some}
    assert pairs == {(x.tobytes(), y) for x, y in zip(arrays, (1, 1, 1, 0, 0), strict=True)}
    assert image.classes(settings) == ["a", "b"]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((16, 32, 3), np.uint8), r"uint8 \(16, 32, 3\), and the model takes uint8"),
        (
            np.full((32, 32, 3), -1, np.float32),
            "cannot be read: float32 of -1 to 0: give 0 to 1, or",
        ),
    ],
)
def test_pictures_that_do_not_fit_are_named(tmp_path, array, message):
    with pytest.raises(UserError, match=rf"2 of its pictures .*\n.*a/0.npy: {message}"):
        image.examples(_folder(tmp_path, a=[array, array]))


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_resized(tmp_path, channels):
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, 8:] = 255
    Image.fromarray(pixels).save(tmp_path / "x.PNG")
    settings = _config(model=MODEL | {"num_channels": channels})
    (example,) = image.prompts(settings, [str(tmp_path / "x.PNG")])
    assert example["pixels"].shape == (32, 32, channels)
    assert (example["pixels"][:, :14] == 0).all() and (example["pixels"][:, 18:] == 255).all()


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (
            {},
            "--image-folder: .* has 0 pictures in 0 folders of classes: give a folder with some of .npy",
        ),
        ({"a": [], "b": [0]}, "has 1 pictures in 2 folders of classes"),
        (
            {f"c{i:02}": [0] for i in range(11)},
            "11 classes, and the model has 10: give --num-classes",
        ),
    ],
)
def test_folders_that_cannot_be_learned_are_refused(tmp_path, classes, message):
    with pytest.raises(UserError, match=message):
        image.examples(_folder(tmp_path, **classes))


def test_config_json_has_the_names_of_the_classes(tmp_path, capsys):
    folder = _folder(tmp_path, cat=[], dog=[])
    document = name_labels(image.classes(folder), 3)
    assert document["id2label"] == {"0": "cat", "1": "dog", "2": "LABEL_2"}
    assert document["label2id"] == {"cat": 0, "dog": 1, "LABEL_2": 2}
    read = ViTConfig.from_dict(document)
    assert (read.num_labels, read.id2label[1]) == (3, "dog")
    with pytest.raises(UserError, match=r"classes\(\) in pipeline.py names 2 .* the model has 1"):
        name_labels(image.classes(folder), 1)
    gone = _config(image_folder=str(tmp_path / "gone"))
    assert name_labels(image.classes(gone), 1)["id2label"] == {"0": "LABEL_0"}
    assert "gone is not here" in capsys.readouterr().out
    assert image.classes(_config())[3] == "3"


@dataclass(frozen=True)
class Section:
    image_folder: str = ""
    image_data: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    num_classes: int = 2


@dataclass(frozen=True)
class Sections:
    data: Section = Section()
    model: Section = Section()


def _named(workdir=Path("a"), **data):
    """A run of two classes, with their names."""
    return with_class_names(Run(workdir, Sections(Section(**data)), {}, 1), image.classes)


def test_a_run_records_the_names_of_its_classes(tmp_path, capsys):
    for name in ("dog", "cat"):
        (tmp_path / name).mkdir()
    (tmp_path / ".ipynb_checkpoints").mkdir()
    settings = _named(image_folder=str(tmp_path)).config
    assert settings.data.class_names == ("cat", "dog")
    (tmp_path / "cat").rmdir()
    assert image.class_names(settings) == ("cat", "dog")
    assert image.decode(settings, np.array([[0.2, 0.8]]), [None]) == ["dog (0.80)"]
    announce.cache_clear()
    assert _named(class_names=("x",)).config.data.class_names == ("x",)
    assert (
        "1 of the model's 2 have no name, and learn to be none: --num-classes 1"
        in capsys.readouterr().out
    )
    with pytest.raises(UserError, match="--class-names: x, y, z: 3 names, and the model has 2"):
        _named(class_names=("x", "y", "z"))
    assert _named().config.data.class_names == ()  # ten digits are none of a model of two classes


def test_what_is_evaluated_is_a_folder_or_tables_whatever_was_trained_on(tmp_path):
    def data(own, *files):
        run = Run(tmp_path, Sections(Section(**own)), {}, 1)
        read = evaluated_run(
            Namespace(json=False, data=[*files]), run, evaluated_pictures
        ).config.data
        return read.image_folder, read.image_data

    tables, folder = {"image_data": ("train.jsonl",)}, {"image_folder": "pictures"}
    for own in (tables, folder):
        assert data(own, str(tmp_path)) == (str(tmp_path), ())
        assert data(own, "a.jsonl", "b.jsonl") == ("", ("a.jsonl", "b.jsonl"))
    with pytest.raises(UserError, match="give one folder of pictures"):
        data(folder, str(tmp_path), str(tmp_path))
    args = Namespace(data=["x.jsonl"], rows=0)
    with pytest.raises(UserError, match="^--data: x.jsonl: there is no such file"):
        config = Sections(Section(image_data=("x.jsonl",)))
        examples_of(args, image, config, pictures=evaluated_pictures)


def test_a_run_goes_on_with_the_classes_that_it_has(tmp_path):
    """A folder that came in front of others would make each label mean another class."""
    pictures, workdir = tmp_path / "pictures", tmp_path / "run"
    (pictures / "cat").mkdir(parents=True)
    _named(workdir, image_folder=str(pictures)).save()
    _named(workdir, image_folder=str(pictures)).save(begun=True)
    (pictures / "ape").mkdir()
    with pytest.raises(
        UserError, match="classes of the run in .* are cat, and here they are ape, cat"
    ):
        _named(workdir, image_folder=str(pictures))
    with pytest.raises(UserError, match="classes of the run in .* are cat, and here they are x, y"):
        _named(workdir, image_folder=str(pictures), class_names=("x", "y"))


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (("b", "c", "a"), {"a": 2, "b": 0}),
        ((), {"a": 0, "b": 1}),
        (("x", "y"), {"a": 0, "b": 1}),
        (("a", "x"), "its classes b are none of a, x"),
        (("x", "y", "z"), "its classes a, b are none of x, y, z"),
    ],
)
def test_folders_are_classes_by_their_names(tmp_path, capsys, names, numbers):
    arrays = np.zeros((2, 2, 32, 32, 3), np.uint8)
    arrays[1] = 9
    folder = _folder(tmp_path, b=arrays[1], a=arrays[0]).data.image_folder
    settings = _config(image_folder=folder, class_names=names)
    if isinstance(numbers, str):
        with pytest.raises(UserError, match=numbers):
            image.examples(settings)
        return
    rows = [one for part in image.examples(settings) for one in part]
    pairs = {(int(one["pixels"].max()), int(one["label"])) for one in rows}
    assert pairs == {(0, numbers["a"]), (9, numbers["b"])}
    said = "other names of the classes, in order: a is x, b is y"
    assert (said in capsys.readouterr().out) == (names == ("x", "y"))


def test_digits_are_classes_by_their_names():
    _, held_out = image.examples(_config())
    _, other = image.examples(_config(class_names=tuple("9876543210")))
    assert [9 - label for label in other.labels] == list(held_out.labels)


def test_pictures_of_a_class_lie_at_any_depth_and_what_is_left_out_is_said(tmp_path, capsys):
    for name in ("a/x/y/1.webp", "a/2.bmp", "b/3.gif", "b/z/4.tif"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    for name in ("a/x/notes.txt", "b/5.heic", "loose.png", "a/.hidden"):
        (tmp_path / name).write_text("")
    (tmp_path / "a/x/all").symlink_to(tmp_path)
    (tmp_path / "nobody").mkdir()
    announce.cache_clear()  # of what other tests had it say
    train, held_out = image.examples(_config(image_folder=str(tmp_path), shift=0))
    assert len(train) + len(held_out) == 4
    out = capsys.readouterr().out
    assert "--image-folder: 2 left out, of no kind that is read: a/x/notes.txt, b/5.heic\n" in out
    assert "--image-folder: 1 left out, in no folder of a class: loose.png\n" in out
    assert "--image-folder: 1 left out, links to folders: a/x/all\n" in out
    assert "labels: of none, which none learns: nobody\n" in out


def test_copies_are_counted_and_where_they_are_named(tmp_path, capsys, monkeypatch):
    settings = _folder(tmp_path, a=[np.full((32, 32, 3), i, np.uint8) for i in (1, 2, 1, 1)], b=[])
    np.save(tmp_path / "b/0.npy", np.full((32, 32, 3), 1, np.uint8))
    announce.cache_clear()
    train, held_out = image.examples(settings)
    (label,) = held_out.labels
    twice = int(held_out[0]["pixels"].max()) == 1
    out = capsys.readouterr().out
    leak = "; 1 of those that are held out are trained on too" * twice
    said = f"data: 3 pictures are copies of others; 1 of more than one class{leak}: "
    assert said + f"{tmp_path}/a/0.npy, {tmp_path}/a/2.npy" in out
    pair = {0: tmp_path / "a/0.npy", 1: tmp_path / "a/2.npy"}
    assert copies.find_copies(pair) == ([[0, 1]], 2)
    monkeypatch.setattr(copies, "SECONDS", -1.0)
    assert copies.find_copies(pair) == ([], 0)


def test_parts_of_a_data_set_are_no_classes(tmp_path):
    for name in ("train/a", "train/b", "test/a"):
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(
        UserError,
        match=f"test, train, which are parts of a data set, and no classes: give one of them, {tmp_path}/test",
    ):
        image.classes(_config(image_folder=str(tmp_path)))


def _tables(folder, labels):
    """The same pictures, all of a gray of their number, as JSON lines and as Parquet of their bytes."""
    paths = [folder / f"{number}.png" for number in range(len(labels))]
    for number, path in enumerate(paths):
        Image.new("RGB", (32, 32), (number,) * 3).save(path)
    rows = [{"image": p.name, "label": x} for p, x in zip(paths, labels, strict=True)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    images = [{"bytes": path.read_bytes(), "path": path.name} for path in paths]
    return pa.table({"image": images, "label": labels})


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("labels", "own", "names", "numbers"),
    [
        (["b", "a", "b"], [], (), [1, 0, 1]),
        (["b", "a", "b"], [], ("b", "a"), [0, 1, 0]),
        ([1, 0, 1], [], ("cat", "dog"), [1, 0, 1]),
        ([1, 0, 1], ["x", "y"], (), [1, 0, 1]),
        ([1, 0, 1], ["x", "y"], ("y", "x"), [0, 1, 0]),
        ([3, 1, 3], [], ("1", "2", "3"), [2, 0, 2]),
        ([3, 1, 3], [], (), [3, 1, 3]),
    ],
)
def test_tables_of_pictures(tmp_path, monkeypatch, kind, labels, own, names, numbers):
    monkeypatch.setattr(unpacking, "UNPACKED", tmp_path / "cache")
    table = _tables(tmp_path, labels)
    if own and kind == "jsonl":
        return  # which names no numbers
    feature = {"label": {"names": own, "_type": "ClassLabel"}} if own else {}
    document = json.dumps({"info": {"features": feature}})
    parquet.write_table(
        table.replace_schema_metadata({"huggingface": document}), tmp_path / "rows.parquet"
    )
    settings = _config(image_data=(str(tmp_path / f"rows.{kind}"),), class_names=names, shift=0)
    for _ in range(2):  # the second time it is unpacked already
        rows = [one for part in image.examples(settings) for one in part]
        rows.sort(key=lambda one: one["pixels"].max())
        assert [one["pixels"].max() for one in rows] == [0, 1, 2]
        assert [int(one["label"]) for one in rows] == numbers
    assert image.class_names(settings) == (names or image.classes(settings))
    assert not own or image.classes(settings) == ["x", "y"]
    assert names or own or labels != [3, 1, 3] or image.classes(settings) == [*"0123"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv: give .jsonl or .parquet"),
        ("a.jsonl", '{"image": "no.png", "label": 0}', "a.jsonl:1: .*no.png is not there"),
        ("a.jsonl", '{"picture": "0.png", "label": 0}', 'a.jsonl:1: .*give {"image": a file'),
        ("a.jsonl", '{"image": "0.png"}', 'a.jsonl:1: .*give {"image": a file'),
        ("a.jsonl", "[", 'a.jsonl:1: .*give {"image": a file'),
        ("a.parquet", "no", "a.parquet cannot be read"),
        (
            "a.jsonl",
            '{"image": "0.png", "label": 0}\n{"image": "0.png", "label": "x"}',
            "labels are texts and numbers, 'x' and 0",
        ),
    ],
)
def test_tables_that_are_none_are_named(tmp_path, name, text, message):
    _tables(tmp_path, [0])
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        image.examples(_config(image_data=(str(tmp_path / name),)))


@pytest.mark.slow
def test_an_export_has_the_names_of_the_classes(tmp_path):
    """Of the run's own folder, in the files of a project, also where that folder is gone; and so has predict."""
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(4):
            Image.new("RGB", (16, 16), (60 * i, 0, 0)).save(tmp_path / "data" / name / f"{i}.png")
    project = create_project(Request.from_flags("vision", "vit"), tmp_path)
    classes = f"--image-folder {tmp_path / 'data'} --num-classes 2"
    tiny = f"train --preset tiny {classes} --steps 1 --virtual-devices 1 --workdir"
    code, _, err = run(f"{sys.executable} -m vision.{tiny} runs/a", project)
    assert code == 0, err
    (tmp_path / "data" / "cat" / "0.png").rename(project / "one.png")
    (tmp_path / "data").rename(tmp_path / "gone")  # as on another machine
    code, _, err = run(f"{sys.executable} -m vision.export --workdir runs/a --out out", project)
    assert code == 0, err
    predict = f"{sys.executable} -m vision.predict --workdir runs/a --prompt one.png"
    code, out, err = run(predict, project)
    assert code == 0 and out.startswith(("one.png -> cat (", "one.png -> dog (")), out + err
    read = ViTForImageClassification.from_pretrained(project / "out")
    assert read.config.id2label == {0: "cat", 1: "dog"}
    assert read.classifier.weight.shape[0] == 2
    classify = transformers.pipeline("image-classification", model=str(project / "out"))
    likeliest = classify(str(project / "one.png"))[0]
    said = out.split("-> ")[1].split()  # "cat", "(0.52)"
    assert said[0] == likeliest["label"]
    assert float(said[1].strip("()")) == pytest.approx(likeliest["score"], abs=6e-3)  # 2 digits


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="--image-folder: nowhere is not a folder"):
        image.examples(_config(image_folder="nowhere"))


class Brightest:
    """A model of 10 classes that takes a bright picture for one of class 3."""

    def __call__(self, pixels_BHWC):
        assert pixels_BHWC.dtype == jnp.float32
        bright_B = pixels_BHWC.mean(axis=(1, 2, 3))
        return bright_B[:, None] * jax.nn.one_hot(3, 10)[None, :]


def test_loss_and_predictions():
    pixels = np.stack([np.full((32, 32, 3), value, np.uint8) for value in (255, 0)])
    scale = {name: np.full((2, 3), 0.5, np.float32) for name in ("mean", "std")}
    batch = {"pixels": pixels, "label": np.array([3, 3]), **scale}
    losses, weights = image.loss(Brightest(), batch, None)
    expected = [np.exp(value) / (np.exp(value) + 9) for value in (1, -1)]
    np.testing.assert_allclose(losses, -np.log(expected), rtol=1e-5)
    assert weights.tolist() == [1, 1]
    outputs = np.asarray(image.predict(Brightest(), batch, None))
    np.testing.assert_allclose(outputs[:, 3], expected, rtol=1e-5)
    assert image.decode(_config(), outputs[:1], [None]) == ["3 (0.23)"]
    rows = [{"label": 3}, {"label": 3}]
    assert image.evaluate(_config(), outputs, rows) == {"accuracy": 0.5, "top_5": 0.5}
    rows = [{"label": 9}, {"label": 0}]
    assert image.evaluate(_config(), outputs, rows) == {"accuracy": 0.5, "top_5": 0.5}
    assert image.evaluate(_config(), outputs[:, :2], rows).keys() == {"accuracy"}
    report = image.report(_config(), outputs, rows)
    assert [*report.names] == [*"0123456789"] and report.counts[9].tolist() == [0] * 3 + [1] + [
        0
    ] * 6


def test_prompts_are_numbers_or_files(tmp_path):
    np.save(tmp_path / "x.npy", np.full((32, 32, 3), 9, np.uint8))
    batch = image.collate(image.prompts(_config(), ["1", str(tmp_path / "x.npy")]))
    assert (batch["pixels"][1] == 9).all()
    np.testing.assert_array_equal(batch["pixels"][0], image.examples(_config())[1][1]["pixels"])
    with pytest.raises(UserError, match="--prompt: dog is neither a file nor the number of"):
        image.prompts(_config(), ["dog"])
