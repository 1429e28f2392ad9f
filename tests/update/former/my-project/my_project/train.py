# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Train GPT-J 6b: boot, build, fit.

python -m my_project.train --preset tiny --virtual-devices 4 --workdir runs/tiny
"""

import jax

from my_project import pipeline, weights
from my_project.boot import boot
from my_project.config import PRESETS
from my_project.sharding import AXES
from my_project.steps import build
from redco_runtime.cli import command, training_run
from redco_runtime.loop import fit
from redco_runtime.mesh import make_mesh


@command
def main() -> None:
    run = training_run(__doc__, PRESETS, AXES)
    boot(virtual_devices=run.virtual_devices, config_hash=run.fingerprint)
    with jax.set_mesh(make_mesh(run.mesh)):
        fit(build(run.config), pipeline, run, weights)


if __name__ == "__main__":
    main()
