"""What evaluate.py says of a trained model: its loss and scores on what a run held out, or on any file."""

import argparse
import json
import math
import os
import typing
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import jax

from ..base.contracts import Accounted, Config, Drawn, Reported, Scored
from ..base.messages import UserError, announce, evaluated_alone, few, results_alone, show, writing
from ..base.files import any_path, check_paths, local_path
from ..base.state import ModelState
from ..checkpoints.checkpoint import Checkpoints
from ..cluster.agreement import check_same_examples
from ..data.example_streams import Spread
from ..run.record import Run
from .command import positive
from .evaluation import Inference

FILES = "data"  # the field of the section `data` that names files


def evaluation_options(
    parser: argparse.ArgumentParser, pipeline: Any, config: type[Any], pictures: Any = None
) -> None:
    """Add the flags of what is evaluated, and of how that is shown.

    config: the class Config of config.py. pictures: the module evaluated_pictures, where the model learns from these.
    """
    fields, add = typing.get_type_hints(typing.get_type_hints(config)["data"]), parser.add_argument
    parser.set_defaults(data=None, picture=None)
    if FILES in fields or pictures:
        metavar = pictures.METAVAR if pictures else "FILES"
        what = pictures.HELP if pictures else "all of these, as of train"
        held_out = f"{what}; without it what the run held out"
        add("--data", nargs="+", metavar=metavar, help=held_out)
    fewer = "so many of them at most, from all over them; without it all"
    add("--rows", type=positive, metavar="N", help=fewer)
    add("--json", action="store_true", help="print one line of JSON, and all else to stderr")
    if isinstance(pipeline, Drawn | Reported):
        what = "a PNG of what is " + (
            "predicted" if isinstance(pipeline, Drawn) else "taken for what"
        )
        parser.add_argument("--picture", type=local_path, metavar="FILE", help=what)
    add("--seed", type=int, metavar="N", help="of what is drawn; default: the run's")


def evaluated_run(args: argparse.Namespace, run: Run, pictures: Any = None) -> Run:
    """Return a run as its evaluation reads it: with the data of flags. pictures: as of `evaluation_options`."""
    if args.json:
        results_alone()
    if not args.data:
        return run
    config = run.config
    check_paths("--data", args.data, local_path if pictures else any_path)
    _say_trained(args.data, config.data, pictures.FIELDS if pictures else (FILES,))
    if pictures:
        data = pictures.with_files(config.data, args.data)
    else:
        data = replace(config.data, data=tuple(args.data), held_out_data=tuple(args.data))
    return replace(run, config=replace(config, data=data))


def _say_trained(files: Sequence[str], data: Any, fields: Sequence[str]) -> None:
    """Print which files, or folders, of --data a run was trained on."""
    every = (getattr(data, name, ()) for name in fields)
    names = [name for own in every for name in ([own] if isinstance(own, str) else own) if name]
    trained = {os.path.realpath(name) for name in names}
    if shared := [name for name in files if os.path.realpath(name) in trained]:
        so = "so that its figures say nothing of other data"
        announce(f"--data: {few(shared)}: the run was trained on it, {so}")


def examples_of(
    args: argparse.Namespace,
    pipeline: Any,
    config: Config,
    checkpoints: Checkpoints | None = None,
    pictures: Any = None,
) -> Sequence[Any]:
    """Return what is evaluated: held-out examples, or all of --data. Raises UserError where there is none.

    checkpoints: of the run, whose history is that of examples that are Accounted. pictures: as of `evaluation_options`.
    """
    with evaluated_alone() if args.data else nullcontext():
        if args.data and pictures:
            held_out = pictures.read_all(pipeline, config)
        else:
            train, held_out = pipeline.examples(config)
            if checkpoints and isinstance(train, Accounted):
                train.resume(config.train.steps, checkpoints.history())
    if not len(held_out):
        todo = "name what to evaluate" if hasattr(args, "data") else "see examples() in pipeline.py"
        raise UserError(f"--data: the run held nothing out: {todo}")
    check_same_examples(held_out)
    return Spread(held_out, args.rows or 0)


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
