"""How a pipeline writes texts: constants of pipeline.py, which a checkpoint's generation_config.json and flags change."""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..base.messages import UserError, print_once, writing
from ..base.hf_files import base_of, find, read_json
from .record import FILE as RUN
from .record import Run, read

FILE = "generation_config.json"  # of a checkpoint, and of the work folder of a run that started from it


@dataclass(frozen=True)
class Setting:
    """One setting: the constant of pipeline.py, its type, and what it may be."""

    constant: str
    kind: type
    fits: Callable[[Any], bool]
    what: str
    # Which of the likely tokens are drawn: predict.py alone takes it of a file.
    drawing: bool = False


# By the names of transformers, of which those of predict.py's flags are made.
SETTINGS = {
    "max_new_tokens": Setting("NEW_TOKENS", int, lambda x: x > 0, "above 0"),
    "min_new_tokens": Setting("LEAST_TOKENS", int, lambda x: x >= 0, "of 0 or more"),
    "temperature": Setting("TEMPERATURE", float, lambda x: 0 <= x < 1e6, "of 0 or more", True),
    "top_k": Setting("TOP_K", int, lambda x: x >= 0, "of 0 or more; 0: all", True),
    "top_p": Setting("TOP_P", float, lambda x: 0 < x <= 1, "above 0, at most 1", True),
    "num_beams": Setting("NUM_BEAMS", int, lambda x: x > 0, "above 0; 1: greedy"),
    "length_penalty": Setting(
        "LENGTH_PENALTY", float, lambda x: abs(x) < 100, "between -100 and 100"
    ),
}
EARLY = "EARLY_STOPPING"  # the constant with when a search ends: True, False or "never"
STOP = "STOP_IDS"  # the constant with the ids of tokens that end a text
FORCED = "FORCED_IDS"  # that with the arguments of beam_search for tokens that a text begins and ends with


def generation_options(parser: argparse.ArgumentParser, pipeline: Any) -> None:
    """Add a flag for each constant that a pipeline has of its texts."""
    for name, setting in SETTINGS.items():
        if hasattr(pipeline, setting.constant):
            what = f"a number {setting.what}; default: {setting.constant} of pipeline.py, or of the checkpoint"
            flag = "--" + name.replace("_", "-")
            parser.add_argument(flag, type=_parser(setting), metavar="N", help=what)


def begin_generation(
    pipeline: Any, run: Run, args: argparse.Namespace | None = None, drawing: bool = False
) -> None:
    """Give the constants of a pipeline their values: by the generation_config.json of its run, then by flags.

    args: with the flags of `generation_options`. drawing: whether what is drawn is a file's matter too.
    Raises UserError for what a file or a flag cannot say.
    """
    flags = vars(args) if args else {}
    constants = [STOP, FORCED, EARLY, *(setting.constant for setting in SETTINGS.values())]
    document = read_generation(run) if any(hasattr(pipeline, name) for name in constants) else {}
    values = _values_of(document, drawing, lengths=hasattr(pipeline, FORCED))
    for name, setting in SETTINGS.items():
        value = flags.get(name)
        value = values.get(name) if value is None else value
        if value is not None and hasattr(pipeline, setting.constant):
            setattr(pipeline, setting.constant, value)
    _leave_room(pipeline, run, args)
    if hasattr(pipeline, EARLY) and document.get("early_stopping") is not None:
        setattr(pipeline, EARLY, document["early_stopping"])
    if hasattr(pipeline, FORCED):
        ids = ((end, document.get(f"forced_{end}_token_id")) for end in ("bos", "eos"))
        setattr(pipeline, FORCED, {f"forced_{end}_id": x for end, x in ids if x is not None})
    if hasattr(pipeline, STOP):
        tokenizer = pipeline.tokenizer(run.config.data.tokenizer)
        own = getattr(tokenizer, "eos_token_id", None)  # a user's own may have none
        setattr(pipeline, STOP, tuple(sorted({*_ids(document), own} - {None})))


def _leave_room(pipeline: Any, run: Run, args: argparse.Namespace | None) -> None:
    """Make texts of half a short row at most, where no flag says how long: a prompt has the other half."""
    length: int = getattr(run.config.data, "sequence_length", 0)
    most, flag = getattr(pipeline, "NEW_TOKENS", 0), getattr(args, "max_new_tokens", None)
    # Of these a text has places beside those of a row.
    apart = hasattr(pipeline, FORCED) or hasattr(pipeline, "encoder")
    if flag is None and not apart and 0 < length <= most:
        pipeline.NEW_TOKENS = room = length // 2
        print_once(
            f"samples have {room} new tokens, half of --sequence-length: NEW_TOKENS of pipeline.py has {most}"
        )


def until(rows: Iterable[np.ndarray], ends: Iterable[int]) -> list[np.ndarray]:
    """Return each row of ids (N,) up to the first that ends a text."""
    ends = [*ends]
    return [row[: np.append(np.isin(row, ends), True).argmax()] for row in rows]


def read_generation(run: Run) -> dict[str, Any]:
    """Return the generation_config.json of a run, or of what it starts from; {} where there is none. Raises UserError."""
    folder, begun = run.workdir, (run.workdir / RUN).exists()
    saved = begun and any(run.checkpoints.glob("[0-9]*"))  # then another --init is refused, or none
    if not saved and (not begun or read(run.workdir / RUN)["init"] != run.init):
        if run.init is None:
            return {}
        folder = find(base_of(run.init))
    path = folder / FILE
    document = read_json(path) if path.is_file() else {}
    try:
        _check(document)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return document


def save_generation(run: Run, document: Mapping[str, Any]) -> None:
    """Write the generation_config.json of a run, by process 0; none where it is {}. Raises UserError."""
    path = run.workdir / FILE
    if jax.process_index() == 0:
        with writing(path):
            path.unlink(missing_ok=True)
            if document:
                path.write_text(json.dumps(document, indent=2) + "\n")


def _values_of(document: Mapping[str, Any], drawing: bool, lengths: bool) -> dict[str, Any]:
    """Return the settings that a generation_config.json has, as transformers takes them.

    lengths: whether those of texts are taken, which of a decoder may be those of the prompt too.
    """
    values = {name: document.get(name) for name in SETTINGS}
    for name in ("max_new_tokens", "min_new_tokens"):
        length = document.get(name.replace("new_tokens", "length"))
        if values[name] is None and length:
            values[name] = length - 1  # without the token before the first
        if not lengths:
            values[name] = None
    if not drawing or not document.get("do_sample"):
        values |= {name: None for name, setting in SETTINGS.items() if setting.drawing}
    return values


def _ids(document: Mapping[str, Any]) -> list[int]:
    ids = document.get("eos_token_id")
    return ids if isinstance(ids, list) else [] if ids is None else [ids]


def _check(document: Mapping[str, Any]) -> None:
    """Raise ValueError for a setting that is none."""
    for name, setting in SETTINGS.items():
        value = document.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        sound = whole or (setting.kind is float and isinstance(value, float))
        if value is not None and not (sound and setting.fits(value)):
            raise ValueError(f"{name} is {str(value)[:40]!r}: make it a number {setting.what}")
    early = document.get("early_stopping")
    if early is not None and not isinstance(early, bool) and early != "never":
        raise ValueError(f'early_stopping is {str(early)[:40]!r}: make it true, false or "never"')
    several = [*_ids(document), *(document.get(f"forced_{end}_token_id") for end in ("bos", "eos"))]
    lengths = [document.get(f"{end}_length") for end in ("max", "min")]
    for value in several + lengths:
        if value is not None and (type(value) is not int or value < 0):
            what = f"an id or a length is {str(value)[:40]!r}"
            raise ValueError(f"{what}: make it a number of 0 or more")


def _parser(setting: Setting) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = setting.kind(text)
        except ValueError:
            value = None
        if value is None or not setting.fits(value):
            raise argparse.ArgumentTypeError(f"{text!r} is no number {setting.what}")
        return value

    return parse
