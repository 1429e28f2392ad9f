"""What predict.py is asked, and how it answers: prompts, a file of them, a chat."""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax

from ..base.contracts import Drawn
from ..base.messages import UserError, few, print_once, results_alone, show, writing
from ..base.files import any_path, local_path, parse_json, read_text
from ..base.state import ModelState
from ..run.check_settings import check_text
from .evaluation import Inference

WithSystem = Callable[[Sequence[Any], str], list[Any]]
Talk = Callable[[argparse.Namespace, Inference, ModelState], None]
ROWS = (".jsonl", ".json", ".ndjson")  # files with a row a line; others have a text a line
ASKED = ("prompt", "question")  # keys of a row that has a prompt, whatever the recipe
PICTURE = ("image", "file_name", "path")  # keys of a path from the folder of the file that has it


def prompt_options(
    parser: argparse.ArgumentParser,
    pipeline: Any,
    with_system: WithSystem | None = None,
    talk: Talk | None = None,
) -> argparse.ArgumentParser:
    """Add the flags of what is asked; return the parser.

    with_system, talk: of chats: puts a system message before prompts; answers what is said on stdin.
    """
    add, kinds = parser.add_argument, parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--prompt", action="append", metavar="TEXT", help="give it several times")
    file = "prompts, a text a line, or rows of .jsonl; what comes out is a line of JSON for each"
    kinds.add_argument("--file", type=local_path, metavar="FILE", help=file)
    parser.set_defaults(chat=False, system=None, picture=None, with_system=with_system, talk=talk)
    if talk:
        lines = "answer what is said on stdin, line by line"
        kinds.add_argument("--chat", action="store_true", help=lines)
    if with_system:
        add("--system", metavar="TEXT", help="a system message before each prompt")
    parser.add_argument("--out", type=any_path, metavar="FILE", help="of --file; default: stdout")
    if isinstance(pipeline, Drawn):
        add("--picture", type=local_path, metavar="FILE", help="a PNG of what is predicted")
    add("--seed", type=int, metavar="N", help="of what is drawn; default: the run's")
    return parser


def answer(
    args: argparse.Namespace,
    inference: Inference,
    model: ModelState,
    fields: Sequence[str] = (),
    continues: bool = False,
) -> None:
    """Print what a model makes of what is asked. Raises UserError.

    fields: keys of a row that may have its prompt, beside those that the section `data` names; none: it is the row.
    continues: whether an answer goes on where the prompt ends.
    """
    if args.out and not args.file:
        raise UserError("--out: it is of --file: give both, or neither")
    for flag in ("prompt", "system"):
        check_text(f"--{flag}", getattr(args, flag))
    if args.chat:
        args.talk(args, inference, model)
    elif args.file:
        rows = read_prompts(args.file, inference.config.data, fields)
        if not args.out:
            results_alone()
        texts = _texts(args, inference, model, [row.prompt for row in rows], rows)
        with _lines(args.out) as write:
            for row, text in zip(rows, texts, strict=True):
                write(json.dumps({**row.values, "prediction": text}, ensure_ascii=False))
    else:
        texts = _texts(args, inference, model, args.prompt)
        for prompt, text in zip(args.prompt, texts, strict=True):
            print_once(prompt + text if continues else f"{prompt} -> {text}", result=True)


@dataclass(frozen=True)
class Row:
    """A line of a file: where it is, what it says, what is asked by it."""

    where: str
    values: Mapping[str, Any]
    prompt: Any


def read_prompts(path: Path, data: Any, fields: Sequence[str]) -> list[Row]:
    """Return the prompts of a file, as `answer`; empty lines are none. Raises UserError, with the line."""
    try:
        lines = read_text(path).split("\n")
    except (OSError, ValueError) as error:
        raise UserError(f"--file: {path} cannot be read: {error}") from None
    named = [getattr(data, f"{name}_field", "") for name in ("prompt", "text", "source")]
    keys = [*filter(None, named), *fields] if fields else []
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"--file: {path}, line {number}"
        if path.suffix not in ROWS:
            rows.append(Row(where, {"prompt": line}, line))
            continue
        try:
            value = parse_json(line)
        except ValueError as error:
            raise UserError(f"{where}: is not JSON: {error}") from None
        values = value if isinstance(value, dict) else {"prompt": value}
        rows.append(Row(where, values, _prompt(values, keys, path, where) if keys else line))
    if not rows:
        raise UserError(f"--file: {path} has no prompt: it is empty")
    return rows


def _prompt(row: Mapping[str, Any], keys: Sequence[str], path: Path, where: str) -> Any:
    key = next((key for key in (*keys, *ASKED) if row.get(key)), None)
    if key is None:
        wanted = ", ".join(map(repr, dict.fromkeys((*keys, *ASKED))))
        raise UserError(f"{where}: has {few(row) or 'nothing'}, and a prompt is one of {wanted}")
    prompt = row[key]
    if key in PICTURE and isinstance(prompt, str) and (path.parent / prompt).is_file():
        return str(path.parent / prompt)
    if isinstance(prompt, list) and prompt and isinstance(prompt[-1], dict):
        # Of a whole chat its last answer is what is asked for.
        while len(prompt) > 1 and prompt[-1].get("role") == "assistant":
            prompt = prompt[:-1]
    return prompt


def _texts(
    args: argparse.Namespace,
    inference: Inference,
    model: ModelState,
    prompts: Sequence[Any],
    rows: Sequence[Row] = (),
) -> Iterator[str]:
    """Yield the answer to each prompt, batch by batch; draw them all where that is asked. Raises UserError."""
    pipeline: Any = inference.pipeline
    config, questions = inference.config, [*prompts]
    if args.system is not None:
        questions = args.with_system(questions, args.system)
    try:
        examples = pipeline.prompts(config, questions)
    except UserError:
        for row, prompt in zip(rows, questions, strict=False):  # that fails alone, to name it
            try:
                pipeline.prompts(config, [prompt])
            except UserError as error:
                raise UserError(str(error).replace("--prompt", row.where, 1)) from None
        raise
    if args.picture is None:
        yield from inference.texts(model, examples)
        return
    outputs = inference.outputs(model, examples)
    if jax.process_index() == 0:
        pipeline.draw_predictions(config, outputs, examples, args.picture)
    yield from pipeline.decode(config, outputs, examples)


@contextmanager
def _lines(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield what writes a line: into a file, which is there when all went well, or to stdout."""
    if path is None or jax.process_index():
        yield partial(print_once, result=True)
        return
    with writing(path, option="--out"):
        beside = path.with_name(f"{path.name}.tmp")
        with beside.open("w", encoding="utf-8") as file:
            yield lambda line: print(line, file=file)
        beside.replace(path)
    show(f"{path} has what became of them")
