"""The table of parity: forty steps of each kind of model beside those of transformers' Trainer.

python tests/benchmarks/parity/table.py   rewrites RESULTS.md
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np
from families.training import RECIPES, SIZES, train_both

STEPS, BATCHES, WITHIN = 40, 4, 1e-4
RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """# Forty steps beside transformers' Trainer

`make table NAME=parity` trains a small model of each family in float32 on a CPU, from the same random weights, on the same {batches} batches in the
same order, with the same settings: AdamW, decay 0.1, clipping at 1.0, a linear schedule to 0. Ours is `loss` of the recipe's pipeline.py, and
`Optimizer` of config.py. Figures are the largest relative difference of any step; within {within:g} they are the same.
{versions}.

| model | recipe | labels | loss | gradient's norm | loss at the first step, and the last | |
|---|---|---|---|---|---|---|
"""
NOTES = """
ViT: Trainer decays the class token and the positions, and ours does not. Labels of gpt2 begin with -100 here: Trainer counts the first
label of a row, which nothing predicts.
"""


def row(name: str, smoothing: float) -> str:
    """Return a row of the table."""
    ours, theirs = train_both(name, STEPS, smoothing, BATCHES)
    loss, norm = np.abs(ours / theirs - 1).max(axis=1)
    verdict = "the same" if max(loss, norm) < WITHIN else "differs"
    labels = f"smoothed by {smoothing:g}" if smoothing else "as they are"
    ends = f"{ours[0][0]:.4f}, {ours[0][-1]:.4f}"
    cells = (name, RECIPES.get(name, "lm"), labels, f"{loss:.1e}", f"{norm:.1e}", ends, verdict)
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    packages = ("transformers", "torch", "accelerate", "jax", "optax")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    plain = [row(name, 0.0) for name in SIZES]
    smooth = [row(name, 0.1) for name in SIZES if name != "vit"]
    head = HEAD.format(batches=BATCHES, within=WITHIN, versions=versions)
    RESULTS.write_text(head + "".join(plain + smooth) + NOTES)


if __name__ == "__main__":
    main()
