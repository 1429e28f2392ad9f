"""Train the preset tiny of recipes with three seeds, and write docs/recipes.md: `make recipes`.

python tests/recipes/measure.py [NAME ...]   those alone; the rows of others stay
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recipes.table import bound
from redco_new.models.recipes import RECIPES

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "recipes.md", ROOT / "docs" / "recipes.json"
BIN = Path(sys.executable).parent
SEEDS = (0, 1, 2)
HEAD = """# What the recipes reach

`make recipes` creates each as `redco recipes --json` says, trains its preset `tiny` as it is with the seeds 0, 1 and 2, on one
device, and writes this page. Figures are the last ones of `eval.jsonl`, of examples that are held out; seconds are those of the
whole command, on two cores of a busy machine. Instead: what the figure is without learning.

| recipe | figure | mean | smallest | largest | instead | seconds |
|---|---|---|---|---|---|---|
"""


def measure(name: str) -> dict:
    """Return the figures of a recipe, by seed, and the seconds that a run took."""
    recipe, figures, seconds = RECIPES[name], [], []
    with tempfile.TemporaryDirectory() as folder:
        run("redco-new", *recipe.create, cwd=folder)
        project = Path(folder, recipe.create[0])
        package = project.name.replace("-", "_")
        for seed in SEEDS:
            start = time.monotonic()
            workdir = f"runs/{seed}"
            options = f"--preset tiny --virtual-devices 1 --seed {seed} --workdir {workdir}".split()
            run("python", "-m", f"{package}.train", *options, cwd=project)
            seconds.append(time.monotonic() - start)
            last = (project / workdir / "eval.jsonl").read_text().splitlines()[-1]
            figures.append(json.loads(last)[recipe.figure.name])
    return {"figures": figures, "seconds": max(seconds)}


def run(program: str, *args: str, cwd: str | Path) -> None:
    """Run a program of this environment. Raises CalledProcessError."""
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    subprocess.run([BIN / program, *args], cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL)


def line(name: str, result: dict) -> str:
    """Return the row of a recipe. Raises ValueError where a seed does not reach its figure."""
    figures, figure = result["figures"], RECIPES[name].figure
    least, most = figure.least, figure.most
    for value in figures:
        if (least is not None and value < least) or (most is not None and value > most):
            raise ValueError(f"{name}: {value} is not {bound(name)}")
    numbers = (statistics.mean(figures), min(figures), max(figures))
    cells = [f"`{name}`", bound(name), *(f"{x:.3f}" for x in numbers), figure.baseline]
    return f"| {' | '.join(cells)} | {result['seconds']:.0f} |\n"


def main(names: list[str]) -> None:
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or RECIPES:
        results[name] = measure(name)
        print(name, results[name], flush=True)
        here = {name: results[name] for name in RECIPES if name in results}
        RESULTS.write_text(json.dumps(here, indent=1) + "\n")
        PAGE.write_text(HEAD + "".join(line(*item) for item in here.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
