# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Print what a trained model makes of prompts, or of a file of them.

python -m my_project.predict --workdir runs/tiny --prompt "The "
"""

import jax

from my_project import pipeline
from my_project.boot import boot
from my_project.config import Config
from my_project.runtime.checkpoints.checkpoint import Checkpoints
from my_project.runtime.layout.mesh import make_mesh
from my_project.runtime.loop.command import command, program_parser, recorded_run
from my_project.runtime.loop.evaluation import Inference
from my_project.runtime.loop.predicting import answer, prompt_options
from my_project.runtime.run.generation import begin_generation, generation_options
from my_project.sharding import AXES
from my_project.steps import build


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
        answer(args, inference, model, ("text", "prompt"), continues=True)


if __name__ == "__main__":
    main()
