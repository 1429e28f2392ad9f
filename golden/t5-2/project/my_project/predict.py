# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Print what a trained model makes of prompts, or of a file of them.

python -m my_project.predict --workdir runs/tiny --prompt "Return the name of the file."
"""

import jax

from my_project import pipeline
from my_project.boot import boot
from my_project.config import Config
from my_project.sharding import AXES
from my_project.steps import build
from redco_runtime.checkpoint import Checkpoints
from redco_runtime.cli import command, program_parser, recorded_run
from redco_runtime.generation import begin_generation, generation_options
from redco_runtime.inference import Inference
from redco_runtime.mesh import make_mesh
from redco_runtime.predicting import answer, prompt_options


@command
def main() -> None:
    options = program_parser(__doc__, pipeline)
    prompt_options(options, pipeline)
    generation_options(options, pipeline)
    args = options.parse_args()
    run = recorded_run(args, Config, AXES)
    boot(virtual_devices=run.virtual_devices, facts=run.facts, cache=run.cache)
    with jax.set_mesh(make_mesh(run.mesh)):
        begin_generation(pipeline, run, args, drawing=True)
        steps = build(run.config)
        checkpoints = Checkpoints(run.checkpoints_by(args.best), shapes=steps.shapes)
        _, model = checkpoints.restore_model(steps.state.model)
        inference = Inference(steps, pipeline, run.config)
        answer(args, inference, model, ("source", "document", "article", "dialogue", "text"))


if __name__ == "__main__":
    main()
