"""preprocessor_config.json: how the pictures of a checkpoint became its numbers, which a run obeys, and export writes."""

import dataclasses
import math
from pathlib import Path
from typing import Any

from ...base.messages import UserError, print_once
from ...base.hf_files import find, read_json
from ...base.files import path_of
from ...run.record import FILE, Run, read, with_former
from .framing import Framing, framing_of

PROCESSOR = "preprocessor_config.json"
FIELDS = ("resize", "resample", "mean", "std")  # of the section `data`
# Numbers of pillow's ways to resample, by which transformers names them.
RESAMPLE = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
# Classes of transformers whose pictures become what Framing makes -> how they resample where the file does not say,
# and whether a size of one number is that of the shorter side.
KINDS = {"ViT": (2, False), "DeiT": (3, False), "CLIP": (3, True)}
ENDS = ("ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor")
# Keys that are read, or that change no number.
READ = """do_resize size resample do_center_crop crop_size do_rescale rescale_factor do_normalize image_mean image_std
    do_convert_rgb image_processor_type feature_extractor_type processor_class data_format input_data_format device
    return_tensors default_to_square _valid_processor_keys""".split()


def with_processor(run: Run) -> Run:
    """Return a run whose pictures are those of what it starts from: of its preprocessor_config.json, or its run.json.

    A run that goes on has its own. Raises UserError where a flag says otherwise, and for what Framing cannot do.
    """
    config = run.config
    ours = framing_of(config.data, config.model)
    if ours is None or run.init is None or (run.workdir / FILE).exists():
        return run
    theirs = _of_run(run) or _of_folder(_base(find(run.init)), ours.size, ours.channels)
    if theirs is None:
        return run
    default = type(config.data)()
    for name in FIELDS:
        own, there = getattr(config.data, name), theirs[name]
        if own not in (getattr(default, name), there):
            flag = f"--{name}: {own}, and the pictures of --init {run.init} have {there}"
            raise UserError(f"{flag}: leave it out, or start from others")
    data = dataclasses.replace(config.data, **theirs)
    framing_of(data, config.model)  # which refuses what does not fit the model
    if data != config.data:
        said = ", ".join(f"{name} {theirs[name]}" for name in FIELDS)
        print_once(f"pictures as those of {run.init}: {said}")
    return dataclasses.replace(run, config=dataclasses.replace(config, data=data))


def _base(folder: Path) -> Path:
    """Return the folder of the model that an adapter is of, where a folder has an adapter of PEFT."""
    adapter = folder / "adapter_config.json"
    name = read_json(adapter).get("base_model_name_or_path") if adapter.is_file() else None
    return find(name) if isinstance(name, str) else folder


def _of_run(run: Run) -> dict[str, Any] | None:
    """Return what the run has that this one starts from; None where that is none."""
    source = path_of(run.init or "")
    folders = (source, source.parent, source.parent.parent)
    path = next((folder / FILE for folder in folders if (folder / FILE).is_file()), None)
    if path is None or (source / "config.json").is_file():
        return None
    data = with_former(type(run.config), read(path)["config"])["data"]
    fields = {name: data[name] for name in FIELDS}
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def _of_folder(folder: Path, size: int, channels: int) -> dict[str, Any] | None:
    """Return the fields of a folder's file; None where it has none. Raises UserError for what cannot be done."""
    if not (folder / PROCESSOR).is_file():
        return None
    table = read_json(folder / PROCESSOR)
    try:
        fields = _fields(table)
        sides = fields.pop("size")
        if sides != size:
            raise ValueError(
                f"it makes pictures of {sides} pixels a side, and the model takes {size}"
            )
        return fields
    except ValueError as error:
        todo = "mend it, or take the file away and give --resize, --resample, --mean and --std"
        raise UserError(f"--init: {folder / PROCESSOR}: {error}: {todo}") from None


def _fields(table: dict[str, Any]) -> dict[str, Any]:
    """Return FIELDS, and the `size` that pictures have then. Raises ValueError, which says what is not understood."""
    name = str(table.get("image_processor_type") or table.get("feature_extractor_type") or "")
    kind = next((kind for kind in KINDS if name in {kind + end for end in ENDS}), None)
    if unknown := [
        key for key, value in table.items() if key not in READ and value not in (None, False)
    ]:
        raise ValueError(f"{unknown[0]} is {table[unknown[0]]!r}, which is not known here")
    resample, shorter = KINDS.get(kind or "", (None, None))
    resample = table.get("resample", resample)
    if resample not in RESAMPLE:
        raise ValueError(f"resample is {resample!r}, and none of pillow's 0 to 5")
    for key in ("do_resize", "do_rescale"):
        if not table.get(key, True):
            raise ValueError(f"{key} is false, and pictures are resized and rescaled here")
    if not math.isclose(table.get("rescale_factor", 1 / 255), 1 / 255, rel_tol=1e-5):
        raise ValueError(f"rescale_factor is {table['rescale_factor']!r}, and no 1/255")
    resize = _sides(table.get("size"), shorter)
    cut = _sides(table.get("crop_size"), False) if table.get("do_center_crop") else ()
    if cut == () and len(resize) == 1:
        raise ValueError("size is that of the shorter side, and nothing is cut")
    final = cut or resize
    if len({*final}) != 1:
        raise ValueError(f"pictures of {final[0]} x {final[1]}, which are no squares")
    scales: dict[str, tuple[float, ...]] = {"mean": (0.0,), "std": (1.0,)}
    if table.get("do_normalize", True):
        scales = {name: _numbers(table, f"image_{name}") for name in scales}
    fields = {"resize": resize if cut and resize != cut else (), "resample": RESAMPLE[resample]}
    return fields | scales | {"size": final[0]}


def _sides(size: Any, shorter: bool | None) -> tuple[int, ...]:
    """Return (height, width), or (shorter side,). shorter: whether one number is that; None where nobody knows."""
    if type(size) is int and shorter is not None:
        return (size,) if shorter else (size, size)
    if isinstance(size, dict):
        sides = {key: value for key, value in size.items() if value is not None}
        if all(type(value) is int for value in sides.values()):
            if sides.keys() == {"height", "width"}:
                return sides["height"], sides["width"]
            if sides.keys() == {"shortest_edge"}:
                return (sides["shortest_edge"],)
    raise ValueError(f"a size is {size!r}, and no height and width, and no shortest_edge")


def _numbers(table: dict[str, Any], key: str) -> tuple[float, ...]:
    values = table.get(key)
    values = values if isinstance(values, list) else [values]
    if not all(type(value) in (int, float) for value in values):
        raise ValueError(f"{key} is {table.get(key)!r}, and no numbers")
    same = len({*values}) == 1
    return tuple(map(float, values[:1] if same else values))


def processor_files(config: Any) -> dict[str, dict[str, Any]]:
    """Return name -> contents of what makes the same numbers of pictures in transformers, to go with a model.

    None for pictures of grays, of which its processors make colors.
    """
    framing = framing_of(config.data, config.model) or Framing(
        config.model.image_size, config.model.num_channels
    )
    if framing.channels != 3:
        print_once(f"no {PROCESSOR} goes with it: processors of transformers make colors of grays")
        return {}
    size, resize = framing.size, framing.resize
    kind = ("ViT", "CLIP", "DeiT")[len(resize)]
    square = {"height": size, "width": size}
    sides = {"shortest_edge": resize[0]} if len(resize) == 1 else square
    sides = {"height": resize[0], "width": resize[1]} if len(resize) == 2 else sides
    scale = {f"image_{name}": list(getattr(framing, name)) for name in ("mean", "std")}
    document = {
        "image_processor_type": f"{kind}ImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": sides,
        "resample": next(n for n, name in RESAMPLE.items() if name == framing.resample),
        "do_center_crop": bool(resize),
        **({"crop_size": square} if resize else {}),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        **{key: value * (3 // len(value)) for key, value in scale.items()},
    }
    return {PROCESSOR: document}
