# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Print what a trained model makes of one or several prompts.

python -m my_project.predict --workdir runs/tiny --prompt "The "
"""

import jax

from my_project import pipeline
from my_project.boot import boot
from my_project.config import Config
from my_project.sharding import AXES
from my_project.steps import build
from redco_runtime.checkpoint import Checkpoints
from redco_runtime.cli import command, parser, recorded_run
from redco_runtime.inference import predict
from redco_runtime.loop import say
from redco_runtime.mesh import make_mesh


@command
def main() -> None:
    options = parser(__doc__)
    options.add_argument("--prompt", action="append", required=True, help="give it several times")
    args = options.parse_args()
    run = recorded_run(args, Config, AXES)
    boot(virtual_devices=run.virtual_devices, config_hash=run.fingerprint)
    with jax.set_mesh(make_mesh(run.mesh)):
        steps = build(run.config)
        _, model = Checkpoints(run.checkpoints, shapes=steps.shapes).restore_model(steps.state)
        prompts = pipeline.prompts(run.config, args.prompt)
        key = jax.random.key(run.config.train.seed)
        for prompt, text in zip(
            args.prompt, predict(steps, model, pipeline, run.config, prompts, key), strict=True
        ):
            say(prompt + text)


if __name__ == "__main__":
    main()
