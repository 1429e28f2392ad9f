# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Print the mean loss of a trained model, in nats a token, and its perplexity.

python -m my_project.evaluate --workdir runs/tiny --data texts.jsonl
"""

import math
from dataclasses import replace

import jax

from my_project import pipeline
from my_project.boot import boot
from my_project.config import Config
from my_project.sharding import AXES
from my_project.steps import build
from redco_runtime.agreement import check_same_examples
from redco_runtime.checkpoint import Checkpoints
from redco_runtime.cli import command, positive, print_once, program_parser, recorded_run
from redco_runtime.errors import UserError
from redco_runtime.inference import Inference
from redco_runtime.mesh import make_mesh
from redco_runtime.spread import Spread


@command
def main() -> None:
    options = program_parser(__doc__, pipeline)
    sources = "all of these, as of train; without it what the run held out"
    options.add_argument("--data", nargs="+", metavar="FILES", help=sources)
    fewer = "so many of their rows at most, from all over them; without it all"
    options.add_argument("--rows", type=positive, metavar="N", help=fewer)
    args = options.parse_args()
    run = recorded_run(args, Config, AXES)
    boot(virtual_devices=run.virtual_devices, facts=run.facts, cache=run.cache)
    config = run.config
    if args.data:
        named = tuple(args.data)
        config = replace(config, data=replace(config.data, data=named, held_out_data=named))
    with jax.set_mesh(make_mesh(run.mesh)):
        steps = build(config)
        _, held_out = pipeline.examples(config)
        if not len(held_out):
            raise UserError("--data: the run held nothing out: name what to evaluate")
        check_same_examples(held_out)
        examples = Spread(held_out, args.rows or 0)
        checkpoints = Checkpoints(run.checkpoints_by(args.best), shapes=steps.shapes)
        step, model = checkpoints.restore_model(steps.state.model)
        inference = Inference(steps, pipeline, config)
        loss = inference.mean_loss(model, examples)
        print_once(
            f"step {step}: loss {loss:.4f}, perplexity {math.exp(loss):.2f}, of {len(examples):,} rows"
        )


if __name__ == "__main__":
    main()
