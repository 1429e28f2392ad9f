"""What evaluate.py says of a trained model: its loss and scores on what a run held out, or on any file."""

import argparse
import json
import math
import os
import typing
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from ..base.contracts import Accounted, Config, Drawn, Reported, Scored
from ..base.errors import UserError, few, writing
from ..base.output import announce, evaluated_alone, results_alone, show
from ..base.paths import check_local, local_path
from ..base.state import ModelState
from ..checkpoints.checkpoint import Checkpoints
from ..cluster.agreement import check_same_examples
from ..data.subset import Spread
from ..run.record import Run
from .command import positive
from .inference import Inference

# Fields of the section `data` that say what is read: files, a folder of pictures, tables of them.
FILES, FOLDER, TABLES = "data", "image_folder", "image_data"


def evaluation_options(parser: argparse.ArgumentParser, pipeline: Any, config: type[Any]) -> None:
    """Add the flags of what is evaluated, and of how that is shown. config: the class Config of config.py."""
    fields, add = typing.get_type_hints(typing.get_type_hints(config)["data"]), parser.add_argument
    parser.set_defaults(data=None, picture=None)
    if FILES in fields:
        sources = "all of these, as of train; without it what the run held out"
        parser.add_argument("--data", nargs="+", metavar="FILES", help=sources)
    elif FOLDER in fields:
        pictures = "all pictures of a folder, or of tables; without it what the run held out"
        parser.add_argument("--data", nargs="+", metavar="FOLDER", help=pictures)
    fewer = "so many of them at most, from all over them; without it all"
    parser.add_argument("--rows", type=positive, metavar="N", help=fewer)
    add("--json", action="store_true", help="print one line of JSON, and all else to stderr")
    if isinstance(pipeline, Drawn | Reported):
        what = "a PNG of what is " + (
            "predicted" if isinstance(pipeline, Drawn) else "taken for what"
        )
        parser.add_argument("--picture", type=local_path, metavar="FILE", help=what)
    add("--seed", type=int, metavar="N", help="of what is drawn; default: the run's")


def evaluated_run(args: argparse.Namespace, run: Run) -> Run:
    """Return a run as its evaluation reads it: with the data of flags."""
    if args.json:
        results_alone()
    config = typing.cast(Any, run.config)
    if not args.data:
        return run
    check_local("--data", args.data)
    _say_trained(args.data, config.data)
    if hasattr(config.data, FILES):
        data = replace(config.data, data=tuple(args.data), held_out_data=tuple(args.data))
    else:
        has_tables = hasattr(config.data, TABLES)
        tables = args.data if has_tables and not Path(args.data[0]).is_dir() else ()
        if len(args.data) > 1 and not tables:
            raise UserError(f"--data: {few(args.data)}: give one folder of pictures")
        rest = {TABLES: (*tables,)} if has_tables else {}
        data = replace(config.data, **{FOLDER: "" if tables else args.data[0]}, **rest)
    return replace(run, config=replace(config, data=data))


def _say_trained(files: Sequence[str], data: Any) -> None:
    """Print which files, or folders, of --data a run was trained on."""
    fields = (getattr(data, name, ()) for name in (FILES, FOLDER, TABLES))
    names = [name for own in fields for name in ([own] if isinstance(own, str) else own) if name]
    trained = {os.path.realpath(name) for name in names}
    if shared := [name for name in files if os.path.realpath(name) in trained]:
        so = "so that its figures say nothing of other data"
        announce(f"--data: {few(shared)}: the run was trained on it, {so}")


def examples_of(
    args: argparse.Namespace,
    pipeline: Any,
    config: Config,
    checkpoints: Checkpoints | None = None,
) -> Sequence[Any]:
    """Return what is evaluated: held-out examples, or all of --data. Raises UserError where there is none.

    checkpoints: of the run, whose history is that of examples that are Accounted.
    """
    settings: Any = config
    with evaluated_alone() if args.data else nullcontext():
        held_out = _read(args, pipeline, settings, checkpoints)
    if not len(held_out):
        todo = "name what to evaluate" if hasattr(args, "data") else "see examples() in pipeline.py"
        raise UserError(f"--data: the run held nothing out: {todo}")
    check_same_examples(held_out)
    return Spread(held_out, args.rows or 0)


def _read(
    args: argparse.Namespace, pipeline: Any, settings: Any, checkpoints: Checkpoints | None
) -> Sequence[Any]:
    if args.data and not hasattr(settings.data, FILES):
        try:
            halves = pipeline.examples(replace(settings, data=_unmoved(settings.data)))
        except UserError as error:  # which names the flags of train
            flags = str(error).replace("--image-folder", "--data").replace("--image-data", "--data")
            raise UserError(flags) from None
        return [example for half in halves for example in half]
    train, held_out = pipeline.examples(settings)
    if checkpoints and isinstance(train, Accounted):
        train.resume(settings.train.steps, checkpoints.history())
    return typing.cast(Sequence[Any], held_out)


def _unmoved(data: Any) -> Any:
    """Return the section `data` of pictures that are as they are, once each."""
    return replace(data, shift=0) if hasattr(data, "shift") else data


def evaluate(
    args: argparse.Namespace,
    inference: Inference,
    model: ModelState,
    step: int,
    examples: Sequence[Any],
    perplexity: bool = False,
) -> dict[str, Any]:
    """Print the figures of a model on examples; return them by name.

    perplexity: whether the loss is nats a token, which have one.
    """
    pipeline: Any = inference.pipeline
    config, details = inference.config, dict[str, Any]()
    figures = inference.means(model, examples)
    loss = figures["loss"]
    if perplexity:
        figures["perplexity"] = math.exp(loss) if loss < 700 else math.inf
    report = None
    if isinstance(pipeline, Scored | Reported):
        rows = list(examples)
        outputs = inference.outputs(model, rows)
        if isinstance(pipeline, Scored):
            figures |= pipeline.evaluate(config, outputs, rows)
        if isinstance(pipeline, Reported):
            report = pipeline.report(config, outputs, rows)
            details = report.record()
        if args.picture and jax.process_index() == 0:
            with writing(args.picture, option="--picture"):
                if isinstance(pipeline, Drawn):
                    pipeline.draw_predictions(config, outputs, rows, args.picture)
                elif report:
                    report.draw(args.picture)
    result = {"step": step, "examples": len(examples), **figures, **details}
    if jax.process_index() == 0:
        if args.json:
            show(json.dumps(_finite(result), ensure_ascii=False), result=True)
        else:
            words = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
            show(f"step {step}: {words}, of {len(examples):,} examples")
            if report:
                show(report.table())
    return result


def _finite(value: Any) -> Any:
    """Return a value without numbers that JSON has not: they are null."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
