# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Write a trained model as a folder that from_pretrained of transformers reads.

python -m my_project.export --workdir runs/tiny --out exported
"""

import jax

from my_project import pipeline, weights
from my_project.boot import boot
from my_project.config import Config
from my_project.runtime.base.files import any_path
from my_project.runtime.base.messages import print_once
from my_project.runtime.checkpoints.checkpoint import Checkpoints
from my_project.runtime.checkpoints.export import export, safetensors_alone
from my_project.runtime.data.tokenizer import tokenizer_if_any
from my_project.runtime.layout.mesh import make_mesh
from my_project.runtime.loop.command import command, program_parser, recorded_run
from my_project.runtime.run.generation import read_generation
from my_project.sharding import AXES
from my_project.steps import build


@command
def main() -> None:
    options = program_parser(__doc__, pipeline)
    options.add_argument("--out", type=any_path, required=True, help="a folder that does not exist")
    options.add_argument(
        "--format",
        type=safetensors_alone("llama.cpp does not open T5"),
        help="safetensors",
    )
    args = options.parse_args()
    run = recorded_run(args, Config, AXES)
    boot(virtual_devices=run.virtual_devices, facts=run.facts, cache=run.cache)
    with jax.set_mesh(make_mesh(run.mesh)):
        steps = build(run.config)
        checkpoints = Checkpoints(run.checkpoints_by(args.best), shapes=steps.shapes)
        step, model = checkpoints.restore_model(steps.state.model)
        export(
            model.parameters,
            args.out,
            weights.hf_config(run.config.model) | {"dtype": "float32"},
            table=weights.tensors(run.config.model),
            tokenizer=tokenizer_if_any(pipeline.tokenizer, run.config.data.tokenizer),
            write=args.format,
            generation=read_generation(run),
            shapes=steps.shapes,
            variables=model.variables,
        )
    print_once(f"step {step} of {args.workdir} is in {args.out}")


if __name__ == "__main__":
    main()
