# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Print what a trained model makes of one or several held-out examples.

python -m my_project.predict --workdir runs/tiny --prompt 0
"""

import jax

from my_project import pipeline
from my_project.boot import boot
from my_project.config import Config
from my_project.sharding import AXES
from my_project.steps import build
from redco_runtime.checkpoint import Checkpoints
from redco_runtime.cli import command, print_once, program_parser, recorded_run
from redco_runtime.inference import Inference
from redco_runtime.mesh import make_mesh


@command
def main() -> None:
    options = program_parser(__doc__, pipeline)
    options.add_argument("--prompt", action="append", required=True, help="give it several times")
    args = options.parse_args()
    run = recorded_run(args, Config, AXES)
    boot(virtual_devices=run.virtual_devices, facts=run.facts, cache=run.cache)
    with jax.set_mesh(make_mesh(run.mesh)):
        steps = build(run.config)
        checkpoints = Checkpoints(run.checkpoints_by(args.best), shapes=steps.shapes)
        _, model = checkpoints.restore_model(steps.state.model)
        prompts = pipeline.prompts(run.config, args.prompt)
        texts = Inference(steps, pipeline, run.config).predict(model, prompts)
        for prompt, text in zip(args.prompt, texts, strict=True):
            print_once(f"{prompt} -> {text}")


if __name__ == "__main__":
    main()
