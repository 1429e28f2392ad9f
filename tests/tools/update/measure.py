"""How long `redco update` takes on an edited project, besides the trial of the merged one.

    python tests/tools/update/measure.py --runs 5

Creates a GPT-J project, edits its three functions, and times whole processes, on a quiet machine: an
update that finds nothing to do, one to a changed template, one to other shards, and one of a changed
model. Each is a dry run: it does all of an update but the trial and the writing. Prints a table of
medians, and of what the trial takes on top.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redco_new.render import assets

REDCO = Path(sys.executable).with_name("redco")
EDITS = {
    "np.stack([example": "np.array([example",
    "    return losses_BS, weights": "    # weighed as before\n    return losses_BS, weights",
    "temperature=TEMPERATURE": "temperature=TEMPERATURE / 2",
}
ADAPTER = {
    "        self.down =": "        self.side = _linear(config, config.embed_dim, 64, rngs)\n"
    "        self.back = _linear(config, 64, config.embed_dim, rngs)\n        self.down =",
    "return self.down(": "return self.back(self.side(h_BSD)) + self.down(",
}


def redco(*args: str, folder: Path) -> float:
    """The seconds that a command takes."""
    start = time.perf_counter()
    subprocess.run([REDCO, *args], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def median(runs: int, *args: str, folder: Path) -> float:
    return statistics.median(redco(*args, folder=folder) for _ in range(runs))


def edit(file: Path, edits: dict[str, str]) -> str:
    """Make the edits; returns the text before. Raises ValueError where there is nothing to edit."""
    before = text = file.read_text()
    for old, new in edits.items():
        if old not in text:
            raise ValueError(f"{file} has no {old!r}")
        text = text.replace(old, new)
    file.write_text(text)
    return before


@contextmanager
def project() -> Iterator[tuple[Path, Path]]:
    """(an edited project, a fork of the templates that changes what was edited and more)."""
    with tempfile.TemporaryDirectory() as folder:
        new, root = REDCO.with_name("redco-new"), Path(folder, "my-project")
        command = [new, "my-project", "--model", "gpt-j", "--shards", "4", "--output", folder]
        subprocess.run(command, check=True, capture_output=True)
        edit(root / "my_project/pipeline.py", EDITS)
        fork = Path(folder, "fork")
        shutil.copytree(assets.templates(), fork)
        edit(fork / "recipes/lm/pipeline.py.jinja", {"NEW_TOKENS = 64": "NEW_TOKENS = 32"})
        edit(fork / "project/launch/hosts.sh.jinja", {"#!/": "#!/usr"})
        yield root, fork


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with project() as (root, fork):
        look = ("update", "--dry-run")
        rows = {
            "nothing to do": median(runs, *look, folder=root),
            "changed template": median(runs, *look, "--template", str(fork), folder=root),
            "--shards 8": median(runs, *look, "--shards", "8", folder=root),
        }
        edit(root / "my_project/model.py", ADAPTER)
        rows["changed model"] = median(runs, *look, folder=root)
        rows["changed model, with trial and writing"] = redco("update", folder=root)
    for name, seconds in rows.items():
        print(f"{name:40} {seconds:5.1f} s")


if __name__ == "__main__":
    main()
