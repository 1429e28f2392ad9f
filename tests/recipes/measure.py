"""Train the preset tiny of recipes with three seeds, and write docs/results/recipes.md: `make table NAME=recipes`.

python tests/recipes/measure.py [NAME[:SEED] ...]   those alone; what others have stays
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
PAGE, RESULTS = ROOT / "docs/results/recipes.md", ROOT / "docs/results/recipes.json"
BIN = Path(sys.executable).parent
SEEDS = (0, 1, 2)
HEAD = """# What the recipes reach

`make table NAME=recipes` creates each as `redco recipes --json` says, trains its preset `tiny` as it is with the seeds 0, 1 and 2, on one
device, and writes this page. Figures are the last ones of `eval.jsonl`, of examples that are held out. Seconds are those of the
whole command on two cores, of the seed that other work on the machine disturbed least. Instead: what the figure is without learning.

| recipe | figure | mean | smallest | largest | instead | seconds |
|---|---|---|---|---|---|---|
"""


def measure(name: str, seed: int) -> dict:
    """Return the figure of a recipe with a seed, and the seconds that the run took."""
    recipe = RECIPES[name]
    with tempfile.TemporaryDirectory() as folder:
        run("redco-new", *recipe.create, cwd=folder)
        project = Path(folder, recipe.create[0])
        package = project.name.replace("-", "_")
        start = time.monotonic()
        options = f"--preset tiny --virtual-devices 1 --seed {seed} --workdir run".split()
        run("python", "-m", f"{package}.train", *options, cwd=project)
        seconds = time.monotonic() - start
        last = (project / "run" / "eval.jsonl").read_text().splitlines()[-1]
    return {"figure": json.loads(last)[recipe.figure.name], "seconds": seconds}


def run(program: str, *args: str, cwd: str | Path) -> None:
    """Run a program of this environment. Raises CalledProcessError."""
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    subprocess.run([BIN / program, *args], cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL)


def line(name: str, seeds: dict[str, dict]) -> str:
    """Return the row of a recipe, of the seeds that it has. Raises ValueError where one does not reach its figure."""
    figure = RECIPES[name].figure
    values = [seed["figure"] for seed in seeds.values()]
    least, most = figure.least, figure.most
    for value in values:
        if (least is not None and value < least) or (most is not None and value > most):
            raise ValueError(f"{name}: {value} is not {bound(name)}")
    numbers = (statistics.mean(values), min(values), max(values))
    cells = [f"`{name}`", bound(name), *(f"{x:.3f}" for x in numbers), figure.baseline]
    seconds = min(seed["seconds"] for seed in seeds.values())
    return f"| {' | '.join(cells)} | {seconds:.0f} |\n"


def page(results: dict[str, dict]) -> str:
    """Return docs/results/recipes.md: a row for each recipe that has all seeds. Raises ValueError."""
    rows = ((name, results[name]) for name in RECIPES if name in results)
    return HEAD + "".join(line(*row) for row in rows if len(row[1]) == len(SEEDS))


def main(names: list[str]) -> None:
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or RECIPES:
        name, _, only = name.partition(":")
        for seed in [int(only)] if only else SEEDS:
            result = measure(name, seed)
            print(name, seed, result, flush=True)
            results.setdefault(name, {})[str(seed)] = result
            here = {name: results[name] for name in RECIPES if name in results}
            RESULTS.write_text(json.dumps(here, indent=1) + "\n")
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main(sys.argv[1:])
