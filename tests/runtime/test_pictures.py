"""Pictures with captions: drawn ones, a folder of one's own, what does not fit, and grids."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from redco_runtime.base.messages import UserError
from redco_runtime.data.pictures.captions import VOCAB, decode_caption, encode_caption
from redco_runtime.data.pictures import checking, grid
from redco_runtime.data.pictures.grid import write_grid
from redco_runtime.data.pictures.captioned import read_captioned
from redco_runtime.data.pictures.reading import read_picture
from redco_runtime.data.pictures.scenes import draw_scene

MODEL = SimpleNamespace(image_size=16, caption_length=32)


def _read(folder="", seed=0, **data):
    settings = {"image_folder": str(folder), "drawn": 40, "held_out": 0.25} | data
    return read_captioned(SimpleNamespace(**settings), MODEL, seed)


def _table(folder, *lines):
    text = "".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines)
    (folder / "metadata.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("text", ["", "a cat", "ein Kätzchen", "猫"])
def test_captions_are_bytes(text):
    ids = encode_caption(text, 16)
    assert ids.shape == (16,) and ids.dtype == np.int32 and ids[-1] == 0
    assert ids.max() < VOCAB == 2**8
    assert decode_caption(ids) == text


def test_a_caption_has_room_for_its_end():
    assert decode_caption(encode_caption("a cat", 6)) == "a cat"
    with pytest.raises(UserError, match="5 bytes, 'a cat', and the model has room for 4.*length 6"):
        encode_caption("a cat", 5)


def test_a_scene_shows_what_its_caption_says():
    for seed in range(8):
        pixels, caption = draw_scene(np.random.default_rng(seed), 16)
        bright = pixels.max(axis=2) > 128
        down, right = (bright.nonzero()[axis].mean() > 7.5 for axis in (0, 1))
        assert f"{'bottom' if down else 'top'} {'right' if right else 'left'}" in caption
        assert ("red" in caption) == (
            pixels[bright].mean(axis=0).argmax() == 0 and "yel" not in caption
        )


def test_drawn_pictures_are_the_same_for_a_seed():
    (train, held_out), (again, _), (other, _) = _read(), _read(), _read(seed=1)
    assert (len(train), len(held_out)) == (30, 10)
    first, *_ = [*train]
    assert first["pixels"].shape == (16, 16, 3) and first["pixels"].dtype == np.uint8
    np.testing.assert_array_equal(first["pixels"], again[0]["pixels"])
    assert (first["pixels"] != other[0]["pixels"]).any()


@pytest.mark.parametrize("share", [-0.1, 1.0, 2])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(
        UserError, match=f"--held-out: {share} is no share: give one from 0 to below"
    ):
        _read(held_out=share)


def test_not_all_are_held_out():
    assert [*map(len, _read(drawn=2, held_out=0.9))] == [1, 1]


def test_a_folder_of_ones_own(tmp_path):
    Image.new("L", (50, 40), 200).save(tmp_path / "a.png")
    np.save(tmp_path / "b.npy", np.full((16, 16, 3), 9, np.uint8))
    rows = ({"file_name": "a.png", "text": "light"}, {"file_name": "b.npy", "text": "dark"})
    parts = _read(_table(tmp_path, *rows), held_out=0.5)
    pairs = {decode_caption(x["caption"]): x["pixels"] for part in parts for x in part}
    assert (pairs["light"] == 200).all() and (pairs["dark"] == 9).all()
    assert pairs["light"].shape == (16, 16, 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"metadata.jsonl:1: '{': give {\"file_name\""),
        ("[]", r"metadata.jsonl:1: '\[\]': give"),
        ({"file_name": "a.png"}, "metadata.jsonl:1: .*: give"),
        ({"file_name": "a.png", "text": 3}, "metadata.jsonl:1: .*: give"),
        (
            {"file_name": "a.png", "text": "a" * 40},
            "metadata.jsonl:1: a caption of 40 bytes, 'a+', and",
        ),
        ({"file_name": "a.png", "text": "a"}, "metadata.jsonl:1: .*a.png is not there"),
    ],
)
def test_a_line_that_is_no_picture_is_named(tmp_path, line, message):
    if "is not there" not in message:
        Image.new("L", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(UserError, match=message):
        _read(_table(tmp_path, line))


def test_folders_that_cannot_be_learned_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"--image-folder: .* has no metadata.jsonl"):
        _read(tmp_path)
    with pytest.raises(UserError, match="--image-folder: .* has 0 pictures: give two at least"):
        _read(_table(tmp_path))


@pytest.mark.parametrize(
    ("array", "actual"),
    [
        (np.zeros((8, 16, 3), np.uint8), r"uint8 \(8, 16, 3\)"),
        (np.zeros((16, 16), np.uint8), r"uint8 \(16, 16\)"),
        (np.zeros((16, 3, 16), np.float32), r"uint8 \(16, 3, 16\)"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path, array, actual):
    np.save(tmp_path / "x.npy", array)
    wanted = r"the model takes uint8 \(16, 16, 3\), of 0 to 255"
    with pytest.raises(UserError, match=rf"x.npy: {actual}, and {wanted}"):
        read_picture(tmp_path / "x.npy", 16)


def test_a_file_that_is_no_picture_is_named(tmp_path):
    (tmp_path / "x.png").write_text("no")
    with pytest.raises(UserError, match="x.png: no picture: give .npy, or what pillow reads"):
        read_picture(tmp_path / "x.png", 16)


@pytest.mark.parametrize("name", ["x.png", "x.npy"])
def test_half_a_file_is_named(tmp_path, name):
    path = tmp_path / name
    pixels = np.random.default_rng(0).integers(0, 255, (16, 16, 3)).astype(np.uint8)
    np.save(path, pixels) if name == "x.npy" else Image.fromarray(pixels).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UserError, match=f"{name}: cannot be read: .*: mend it, or leave it out"):
        read_picture(path, 16)


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (4, 3)])
def test_a_grid_has_a_cell_a_picture(tmp_path, monkeypatch, count, columns):
    monkeypatch.setattr(grid, "MOST", 3)
    write_grid(tmp_path / "x.png", np.zeros((count, 4, 4, 3), np.uint8), ["\x01 $$$ 猫"] * count)
    with Image.open(tmp_path / "x.png") as image:
        width, height = image.size
    assert (width, height) == (125 * columns, 160)


def _photos(folder, count=8):
    """Pictures of a folder with a table, half of them photographs as JPEG."""
    rng = np.random.default_rng(0)
    names = [f"{i}.{('png', 'jpg')[i % 2]}" for i in range(count)]
    for name in names:
        Image.fromarray(rng.integers(0, 255, (24, 24, 3)).astype(np.uint8)).save(folder / name)
    _table(folder, *({"file_name": name, "text": "a"} for name in names))
    return names


def test_broken_pictures_are_all_named_before_a_run_begins(tmp_path, capsys):
    names = _photos(tmp_path)
    assert len(_read(tmp_path)[0]) == 6 and capsys.readouterr().out == ""
    for name in names[:2]:
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-200])
    (tmp_path / names[2]).write_text("<html>404</html>")
    (tmp_path / names[3]).write_bytes(b"")
    with (tmp_path / names[5]).open("ab") as file:
        file.write(bytes(500))  # which no reader minds
    with pytest.raises(UserError) as error:
        _read(tmp_path)
    title, *faults, todo = str(error.value).splitlines()
    assert title == "--image-folder: 4 of its pictures cannot be used:"
    assert [fault.partition(": ")[0].strip() for fault in faults] == [
        str(tmp_path / name) for name in names[:4]
    ]


def test_of_more_pictures_than_there_is_time_for_it_says_how_many_were_looked_at(
    tmp_path, capsys, monkeypatch
):
    _photos(tmp_path)
    monkeypatch.setattr(checking, "SECONDS", -1.0)
    assert len(_read(tmp_path)[0]) == 6
    assert "0 of 8 pictures looked at" in capsys.readouterr().out
