"""Send what was exported to a hub, with a card of the run that made it. Nothing is sent where --push is not given."""

import argparse
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
from huggingface_hub import HfApi, ModelCard, ModelCardData, get_token
from huggingface_hub.utils import HFValidationError, validate_repo_id

from ..base.messages import UserError
from ..base.files import is_bucket, read_lines
from ..monitor.events import add_up_events
from ..run.record import Run

KINDS = {
    "adapter_config.json": "peft",
    "config.json": "transformers",
    "*.gguf": "gguf",
}  # a file -> what reads its folder


def hub_name(text: str) -> str:
    """Parse the name of a model of the hub, where this user may send one."""
    try:
        validate_repo_id(text)
    except HFValidationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if "/" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} has no owner: give ORG/NAME")
    if not get_token():
        raise argparse.ArgumentTypeError("no token of the hub: `hf auth login`, or set HF_TOKEN")
    return text


def publish(args: argparse.Namespace, run: Run, step: int) -> None:
    """Write a card into args.out, and send that folder to args.push, a private model where it is new; process 0 does.

    Raises UserError: what was exported stays.
    """
    if not args.push or jax.process_index():
        return
    out = args.out
    if is_bucket(out):
        raise UserError(f"--push: {out} is no folder of this machine: give --out one")
    (out / "README.md").write_text(str(card(args.push, run, step, out)))
    api = HfApi()
    try:
        api.create_repo(args.push, private=True, exist_ok=True)
        api.upload_folder(repo_id=args.push, folder_path=out, commit_message=f"Step {step}")
    except Exception as error:  # of its library of HTTP, which is one or the other by version
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        todo = f"it is in {out}: mend that, then `hf upload {args.push} {out}`"
        raise UserError(f"--push: {args.push} does not take it: {reason}; {todo}") from None
    print(f"sent to {args.push}")


def card(name: str, run: Run, step: int, out: Path) -> ModelCard:
    """Return what a reader is told of a model: what it comes from, what it learned from, how well, at what cost."""
    train, data = run.config.train, run.config.data
    evaluated = [line for line in read_lines(run.workdir / "eval.jsonl") if line["step"] <= step]
    goodput = add_up_events(read_lines(run.workdir / "events.jsonl"))
    facts = {
        "base": run.init or "none: it began with random numbers",
        "data": ", ".join(getattr(data, "data", ())) or "what examples() in pipeline.py makes",
        "steps": f"{step}, of {train.batch_size} rows each",
        "learning rate": getattr(
            getattr(run.config, "optimizer", None), "learning_rate", "see below"
        ),
        "mesh": " ".join(f"{axis}={size}" for axis, size in run.mesh.items()),
        "time": goodput.headline,
    }
    for key, value in evaluated[-1].items() if evaluated else ():
        if key != "step":
            facts[f"held-out {key}"] = f"{value:.4f} at step {evaluated[-1]['step']}"
    about = {
        "base_model": run.init if run.init and not Path(run.init).exists() else None,
        "license": _license(run.init),
        "library_name": next((kind for file, kind in KINDS.items() if any(out.glob(file))), None),
    }
    rows = "".join(f"| {fact} | {value} |\n" for fact, value in facts.items())
    settings = json.dumps(run.record()["config"], indent=1)
    return ModelCard(
        f"---\n{ModelCardData(**about).to_yaml()}\n---\n# {name.partition('/')[2]}\n\n| | |\n|---|---|\n{rows}\n"
        f"All settings:\n\n```json\n{settings}\n```\n"
    )


def _license(init: str | None) -> Any:
    """Return the licence of what a run started from, None where its card does not say it."""
    if init is None:
        return None
    with suppress(Exception):  # it has no card, or the hub is out of reach
        own = Path(init, "README.md")
        return ModelCard.load(own if own.is_file() else init).data.license
    return None
