"""A chat with a trained model, which predict.py holds on stdin and stdout."""

import argparse
import sys
from dataclasses import replace
from typing import Any

import jax

from ..base.messages import UserError, show
from ..base.state import ModelState
from .evaluation import Inference


def talk(args: argparse.Namespace, inference: Inference, model: ModelState) -> None:
    """Print an answer to each line of stdin, after all that was said before it, until there is none."""
    if jax.process_count() > 1:
        raise UserError("--chat: it is of one process, whose stdin it reads: start it alone")
    pipeline: Any = inference.pipeline
    said = [{"role": "system", "content": args.system}] if args.system else []
    turn, invitation = 0, "> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(invitation)
        except EOFError:
            return
        except UnicodeDecodeError:
            raise UserError("--chat: a line of stdin is not UTF-8") from None
        if not line.strip():
            continue
        said.append({"role": "user", "content": line})
        config: Any = inference.config
        # The same question may get another answer.
        train = replace(config.train, seed=config.train.seed + turn)
        own = replace(inference, config=replace(config, train=train))
        (text,) = own.predict(model, pipeline.prompts(own.config, [said]))
        show(text, result=True)
        said.append({"role": "assistant", "content": text})
        turn += 1
