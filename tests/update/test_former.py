"""A project of the former layout, edited by its user, is brought over by `redco update`.

former/my-project is what redco-new wrote before train.py held its loop: `--model gpt-j --shards 4`. Its
pristine copies are not stored twice: they are made of the files here.
"""

import json
import shutil
from pathlib import Path

import pytest
from generated import ROOT, make, redco, run

from redco_new.project.records import COPIES, SUFFIX
from redco_new.transaction import MANIFEST, sha256

FORMER = ROOT / "tests/update/former/my-project"
MODEL, PIPELINE, TRAIN = (f"my_project/{name}.py" for name in ("model", "pipeline", "train"))
EDITS = {
    PIPELINE: {
        "    return losses_BS, weights_BS": "    return 0.5 * losses_BS, weights_BS",
        "def collate(examples": 'def tell():\n    say("reading")\n\n\ndef collate(examples',
        "from redco_runtime.losses": "from redco_runtime.loop import say\nfrom redco_runtime.losses",
    },
    TRAIN: {
        "        fit(build(run.config), pipeline, run, weights)": (
            "        steps = build(run.config)\n"
            '        say(f"{run.config.train.steps} steps")\n'
            "        fit(steps, pipeline, run, weights)"
        ),
        "import fit": "import fit, say",
    },
    "redco_runtime/errors.py": {
        "class UserError(": "MINE = 1  # of the user\n\n\nclass UserError("
    },
    MODEL: {"_NORMAL = nnx.initializers.normal(0.02)": "_NORMAL = nnx.initializers.normal(0.01)"},
}
EDITED = {
    "my_project/config.py": ["def matrices(params"],  # what a project made before decays stays
    PIPELINE: ["return 0.5 * losses_BS", 'print_once("reading")'],
    MODEL: ["normal(0.01)"],
    "my_project/runtime/base/errors.py": ["MINE = 1  # of the user"],  # which is another's part now
    TRAIN: [
        '            print_once(f"{run.config.train.steps} steps")\n            train(steps, run)\n'
    ],
}
# A program that redco never wrote, and that calls what was renamed, moved, or has other arguments by now.
SWEEP = """import dataclasses

import jax

from my_project import pipeline, weights
from my_project.boot import boot
from my_project.config import PRESETS
from my_project.sharding import AXES
from my_project.steps import build
from redco_runtime import loop
from redco_runtime.cli import command, training_run
from redco_runtime.mesh import make_mesh


@command
def main() -> None:
    run = training_run(__doc__, PRESETS, AXES)
    boot(virtual_devices=run.virtual_devices, config_hash=run.fingerprint)
    with jax.set_mesh(make_mesh(run.mesh)):
        for seed in (0,):
            settings = dataclasses.replace(run.config.train, seed=seed)
            config = dataclasses.replace(run.config, train=settings)
            one = dataclasses.replace(run, config=config, workdir=run.workdir / str(seed))
            loop.say(f"seed {seed}")
            loop.fit(build(config), pipeline, one, weights)


if __name__ == "__main__":
    main()
"""
STEP = "python -m my_project.sweep --preset tiny --steps 1 --virtual-devices 4 --workdir runs/a"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """path -> content of what redco-new writes today for the same request: projects made before keep Muon, and best checkpoints."""
    return tree(
        make(
            tmp_path_factory.mktemp("fresh"),
            shards="4",
            features="best,muon",
            launch="slurm,hosts,jobset,tpu-vm,xmanager",
        )
    )


@pytest.fixture
def former(tmp_path):
    """A copy of the former project, as it came to be: with its pristine copies, and then edited."""
    root = tmp_path / "my-project"
    shutil.copytree(FORMER, root)
    files = json.loads((root / MANIFEST).read_text())["files"]
    assert files.keys() == tree(root).keys()
    for path, entry in files.items():
        content = (root / path).read_bytes()
        assert sha256(content) == entry["sha256"], path
        copy = root / f"{COPIES}{path}{SUFFIX}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
    for path, edits in EDITS.items():
        for old, new in edits.items():
            edit(root / path, old, new)
    return root


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, (file, old)
    file.write_text(text.replace(old, new))


def tree(root: Path) -> dict[str, bytes]:
    """path -> content of the files of a project, without redco's own and what its runs leave."""
    paths = {p.relative_to(root).as_posix(): p for p in sorted(root.rglob("*")) if p.is_file()}
    ignored = (".redco/", "runs/")
    return {
        name: path.read_bytes()
        for name, path in paths.items()
        if not name.startswith(ignored) and "__pycache__" not in name
    }


def assert_brought_over(root: Path, fresh: dict[str, bytes], edits: dict[str, list[str]]) -> None:
    """What was not edited is as redco-new writes it today, and the edits are there."""
    files = tree(root)
    assert files.keys() == fresh.keys() | edits.keys()
    assert {path for path in fresh if files[path] != fresh[path]} <= edits.keys()
    for path, text in ((path, text) for path, texts in edits.items() for text in texts):
        assert text in files[path].decode(), path


@pytest.mark.slow
def test_an_edited_project_is_brought_over_and_trains_on(former, fresh):
    """No conflict, though the template has wrapped the loop that its user changed; their calls are rewritten."""
    sweep = former / "my_project/sweep.py"
    sweep.write_text(SWEEP)
    before = tree(former)
    code, out, err = redco(former, "update", "--diff", TRAIN)
    patches = [line for line in out.splitlines() if line.startswith("redco: ")]
    assert (code, len(patches), err, tree(former)) == (0, 6, "", before)
    code, out, err = redco(former, "update")
    assert (code, err) == (0, ""), out
    assert (
        "migrated: loop.fit(build(config), pipeline, one, weights) -> train(build(config), one)"
        in out
    )
    sizes = {path.name: path.stat().st_size for path in (former / ".redco").iterdir()}
    assert sizes.pop("incoming"), "the loss that its user edited"
    assert sizes.keys() == {"lock", "manifest.json", "base.tar.xz", "undo.tar.xz"}
    assert sum(sizes.values()) < 300_000, sizes
    content = sweep.read_text()
    sweep.unlink()
    assert_brought_over(former, fresh, EDITED)
    sweep.write_text(content)
    code, out, err = run(STEP, former)
    assert code == 0 and "seed 0" in out, out + err
    assert redco(former, "update")[1].startswith("my-project: nothing to update.\n")
