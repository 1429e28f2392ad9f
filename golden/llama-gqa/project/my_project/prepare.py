# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Prepare what `--data` names without training: its tokens are made, on the CPU, and its first rows shown.

python -m my_project.prepare --preset tiny --data 'texts/*.jsonl' --preview 3
It takes the flags of train, which makes the tokens itself, by a process, where they are not there yet.
"""

from my_project import pipeline
from my_project.config import CHECKPOINT, PRESETS
from my_project.runtime.data.dry_run import prepare
from my_project.runtime.loop.command import command, training_run
from my_project.sharding import AXES


@command
def main() -> None:
    prepare(pipeline, training_run(__doc__, PRESETS, AXES, CHECKPOINT, preview=True))


if __name__ == "__main__":
    main()
