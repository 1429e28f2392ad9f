"""Pictures of any kind of file as transformers opens them, and framed as its processors do, by their own file."""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from PIL import Image
from transformers.image_utils import load_image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from redco_runtime.base.messages import UserError
from redco_runtime.data.pictures.framing import Framing, framing_of
from redco_runtime.data.pictures.opening import open_picture, to_bytes
from redco_runtime.data.pictures.processor import PROCESSOR, processor_files, with_processor
from redco_runtime.data.pictures.reading import read_picture
from redco_runtime.data.pictures.scale import round_pixels, scale_pixels
from redco_runtime.run.record import Run

COLORED = Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 44, 3)).astype(np.uint8))


def turned(path):
    exif = Image.Exif()
    exif[0x0112] = 6
    COLORED.save(path, exif=exif)


def palette_with_transparency(path):
    COLORED.quantize(16).save(path, transparency=bytes(range(16)))


def animated(path):
    other = Image.new("RGB", COLORED.size)
    COLORED.save(path, save_all=True, append_images=[other])


KINDS = {
    "turned.jpg": turned,
    "cmyk.jpg": lambda path: COLORED.convert("CMYK").save(path),
    "gray.png": lambda path: COLORED.convert("L").save(path),
    "bits.png": lambda path: COLORED.convert("1").save(path),
    "alpha.png": lambda path: COLORED.convert("RGBA").rotate(9).save(path),
    "gray-alpha.png": lambda path: COLORED.convert("LA").rotate(9).save(path),
    "palette.png": lambda path: COLORED.quantize(16).save(path),
    "transparent.png": palette_with_transparency,
    "a.webp": lambda path: COLORED.save(path),
    "a.bmp": lambda path: COLORED.save(path),
    "a.tiff": lambda path: COLORED.save(path),
    "frames.gif": animated,
    "frames.webp": animated,
}


@pytest.mark.filterwarnings("error:Palette")
@pytest.mark.parametrize("name", KINDS)
def test_a_picture_is_what_transformers_opens(tmp_path, name):
    KINDS[name](tmp_path / name)
    ours = open_picture(tmp_path / name, 3)
    with Image.open(tmp_path / name) as image:
        if name == "transparent.png":  # of which pillow warns
            expected = image.convert("RGBA").convert("RGB")
        else:
            expected = load_image(image)
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(expected))
    assert ours.size == ((30, 44) if name == "turned.jpg" else (44, 30))
    assert open_picture(tmp_path / name, 1).mode == "L"


@pytest.mark.parametrize("name", ["a.png", "a.tiff"])
def test_sixteen_bits_are_shares_of_all_that_they_have(tmp_path, name):
    grays = np.arange(0, 65536, 257, np.uint16).reshape(16, 16)
    Image.fromarray(grays).save(tmp_path / name)
    pixels = np.asarray(open_picture(tmp_path / name, 3))
    assert (pixels == np.arange(256).reshape(16, 16, 1)).all()
    dark = np.full((16, 16), 200, np.uint16)  # and not bytes, though they would fit
    Image.fromarray(dark).save(tmp_path / name)
    assert (np.asarray(open_picture(tmp_path / name, 1)) == 1).all()


@pytest.mark.parametrize(
    ("numbers", "pixels"),
    [
        (np.array([0, 0.5, 1], np.float32), [0, 128, 255]),
        (np.array([0, 2.4, 255], np.float64), [0, 2, 255]),
        (np.array([0, 1, 1.6], np.float32), [0, 1, 2]),
        (np.array([0, 2, 255], np.int64), [0, 2, 255]),
        (np.array([0, 257, 65535], np.int32), [0, 1, 255]),
        (np.array([-0.1, 1], np.float32), "float32 of -0.1 to 1: give 0 to 1, or 0 to 255"),
        (np.array([0, 256], np.float32), "float32 of 0 to 256: give"),
        (np.array([0, np.nan], np.float32), "float32 of nan to nan: give"),
        (np.array([0, 65536], np.int32), "int32 of 0 to 65536: give 0 to 255, or 0 to 65535"),
        (np.array([True]), "bool of"),
    ],
)
def test_numbers_are_read_by_their_range_or_refused(tmp_path, numbers, pixels):
    if isinstance(pixels, str):
        with pytest.raises(ValueError, match=pixels):
            to_bytes(numbers)
    else:
        assert to_bytes(numbers).tolist() == pixels


def test_pictures_of_floats(tmp_path):
    Image.fromarray(np.full((8, 8), 0.5, np.float32)).save(tmp_path / "a.tiff")
    assert (read_picture(tmp_path / "a.tiff", 8) == 128).all()
    Image.fromarray(np.full((8, 8), -1, np.float32)).save(tmp_path / "b.tiff")
    with pytest.raises(UserError, match="b.tiff: cannot be read: float32 of -1 to 0: give 0 to 1"):
        read_picture(tmp_path / "b.tiff", 8)


@pytest.mark.parametrize("name", ["a.webp", "a.bmp", "a.tiff", "a.gif", "a.jpg", "a.png"])
def test_half_a_picture_is_named(tmp_path, name):
    COLORED.save(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=f"{name}: "):
        read_picture(tmp_path / name, 8)


@dataclass(frozen=True)
class Data:
    resize: tuple[int, ...] = ()
    resample: str = "bilinear"
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)


@dataclass(frozen=True)
class Model:
    image_size: int = 16
    num_channels: int = 3


@dataclass(frozen=True)
class Config:
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)


COLORFUL = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
FRAMINGS = {
    "vit": (ViTImageProcessorPil, {}),
    "box": (ViTImageProcessorPil, {"resample": "box", **COLORFUL}),
    "deit": (DeiTImageProcessorPil, {"resize": (20, 24), "resample": "bicubic", **COLORFUL}),
    "clip": (CLIPImageProcessorPil, {"resize": (17,), "resample": "lanczos", **COLORFUL}),
}


@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("name", FRAMINGS)
def test_what_is_exported_makes_the_same_numbers_in_transformers(tmp_path, name, tall):
    kind, fields = FRAMINGS[name]
    config = Config(Data(**fields))
    (document,) = processor_files(config).values()
    assert document["image_processor_type"] + "Pil" == kind.__name__
    (tmp_path / PROCESSOR).write_text(json.dumps(document))
    picture = COLORED.rotate(90, expand=True) if tall else COLORED
    theirs = kind.from_pretrained(tmp_path)(picture, return_tensors="np")["pixel_values"]
    framing = framing_of(config.data, config.model)
    scale = [value[None] for value in framing.scale.values()]
    ours = scale_pixels(framing.pixels(picture)[None], *scale)
    np.testing.assert_allclose(ours, theirs.transpose(0, 2, 3, 1), atol=1e-5)
    run = with_processor(Run(tmp_path / "run", Config(), {}, 1, str(tmp_path)))
    assert framing_of(run.config.data, run.config.model) == framing


def test_pixels_are_as_they_were():
    x = np.arange(256.0).reshape(1, 16, 16, 1)
    half = np.full((1, 1), 0.5, np.float32)
    np.testing.assert_array_equal(scale_pixels(x), scale_pixels(x, half, half))
    np.testing.assert_array_equal(round_pixels(scale_pixels(x)), x)
    assert round_pixels(np.array([-1.5, 1.5])).tolist() == [0, 255]


VIT = {"do_normalize": True, "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def start(folder, document, **data):
    """A run of pictures that starts from a checkpoint with such a file."""
    (folder / PROCESSOR).write_text(json.dumps(document))
    return with_processor(Run(folder / "run", Config(Data(**data)), {}, 1, str(folder)))


@pytest.mark.parametrize(
    ("document", "resize", "resample"),
    [
        (VIT | {"size": 16, "feature_extractor_type": "ViTFeatureExtractor"}, (), "bilinear"),
        (VIT | {"size": {"height": 16, "width": 16}, "resample": 3}, (), "bicubic"),
        (
            VIT
            | {"size": 18, "do_center_crop": True, "crop_size": 16, "crop_pct": None}
            | {"image_processor_type": "CLIPImageProcessorFast"},
            (18,),
            "bicubic",
        ),
        (
            VIT
            | {"size": 18, "do_center_crop": True, "crop_size": {"height": 16, "width": 16}}
            | {"image_processor_type": "DeiTImageProcessor"},
            (18, 18),
            "bicubic",
        ),
    ],
)
def test_files_of_others_are_obeyed(tmp_path, document, resize, resample):
    data = start(tmp_path, document).config.data
    assert data == Data(resize, resample)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 32}, "it makes pictures of 32 pixels a side, and the model takes 16"),
        ({"size": {"height": 16, "width": 20}}, "pictures of 16 x 20, which are no squares"),
        ({"size": {"longest_edge": 16}}, "a size is {'longest_edge': 16}, and no height"),
        ({"size": {"shortest_edge": 16}}, "that of the shorter side, and nothing is cut"),
        ({"size": 16, "image_processor_type": "Other"}, "resample is None, and none of"),
        ({"do_resize": False}, "do_resize is false"),
        ({"rescale_factor": 1 / 127.5}, "rescale_factor is 0.0078.*, and no 1/255"),
        ({"do_pad": True}, "do_pad is True, which is not known here"),
        ({"crop_pct": 0.9}, "crop_pct is 0.9, which is not known"),
        ({"image_mean": None}, "image_mean is None, and no numbers"),
        ({"image_std": [0, 0, 0]}, "--std: 0.0: give 3 numbers, or one above 0"),
    ],
)
def test_what_is_not_done_as_they_do_is_refused(tmp_path, change, message):
    document = VIT | {"size": 16, "image_processor_type": "ViTImageProcessor"} | change
    with pytest.raises(UserError, match=message):
        start(tmp_path, document)


def test_a_flag_that_says_otherwise_is_refused_and_a_run_goes_on_with_its_own(tmp_path):
    document = VIT | {
        "size": 16,
        "image_processor_type": "ViTImageProcessor",
        "image_std": [0.2] * 3,
    }
    with pytest.raises(UserError, match=r"--std: \(0.3,\), and the pictures of --init .* \(0.2,\)"):
        start(tmp_path, document, std=(0.3,))
    run = start(tmp_path, document, std=(0.2,))
    assert run.config.data.std == (0.2,)
    run.save()
    assert with_processor(replace(run, config=Config())).config == Config()
    other = Run(tmp_path / "other", Config(), {}, 1, str(run.workdir))
    assert with_processor(other).config.data.std == (0.2,)


def test_what_has_no_processor_frames_nothing(tmp_path):
    run = Run(tmp_path / "run", Config(), {}, 1, str(tmp_path))
    assert with_processor(run) is run


def test_settings_that_frame_nothing_are_refused():
    for fields, message in {
        "resize": ((8,), "--resize: 8, and the model takes 16 pixels a side"),
        "mean": ((0.1, 0.2), "--mean: 0.1 0.2: give 3 numbers, or one"),
        "std": ((0.0,), "--std: 0.0: give 3 numbers, or one above 0"),
    }.items():
        value, expected = message
        with pytest.raises(UserError, match=expected):
            Framing(16, **{fields: value})


def test_grays_have_no_processor(capsys):
    assert processor_files(Config(model=Model(num_channels=1))) == {}
    assert f"no {PROCESSOR} goes with it" in capsys.readouterr().out
