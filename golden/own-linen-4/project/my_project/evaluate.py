# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Print the loss of a trained model and its scores, of what the run held out or of any file.

python -m my_project.evaluate --workdir runs/tiny
"""

import jax

from my_project import pipeline
from my_project.boot import boot
from my_project.config import Config
from my_project.runtime.checkpoints.checkpoint import Checkpoints
from my_project.runtime.layout.mesh import make_mesh
from my_project.runtime.loop.command import command, program_parser, recorded_run
from my_project.runtime.loop.evaluation import Inference
from my_project.runtime.loop.scoring import evaluate, evaluated_run, evaluation_options, examples_of
from my_project.sharding import AXES
from my_project.steps import build


@command
def main() -> None:
    options = program_parser(__doc__, pipeline)
    evaluation_options(options, pipeline, Config)
    args = options.parse_args()
    run = recorded_run(args, Config, AXES)
    boot(virtual_devices=run.virtual_devices, facts=run.facts, cache=run.cache)
    with jax.set_mesh(make_mesh(run.mesh)):
        run = evaluated_run(args, run)
        steps = build(run.config)
        checkpoints = Checkpoints(run.checkpoints_by(args.best), shapes=steps.shapes)
        examples = examples_of(args, pipeline, run.config, checkpoints)
        step, model = checkpoints.restore_model(steps.state.model)
        inference = Inference(steps, pipeline, run.config)
        evaluate(args, inference, model, step, examples)


if __name__ == "__main__":
    main()
