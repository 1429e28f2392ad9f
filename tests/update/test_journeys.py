"""A language model's project that its user edits and trains, puts on more devices, and gives new parts."""

import math
import shutil
from types import SimpleNamespace

import pytest
from generated import make
from jax.sharding import PartitionSpec as P  # noqa: F401, in the texts of specs
from update.journeys import Life, changed, specs
from update.language import MODEL, edit_pipeline

pytestmark = pytest.mark.slow  # whole lives of projects, trained before and after

SHARDING = "my_project/sharding.py"
RUNS = "runs/a"


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """A project of GPT-J for 4 devices, with a pipeline of its user, trained for 4 steps."""
    life = Life(make(tmp_path_factory.mktemp("journey"), shards="4"), "my_project", 8)
    edit_pipeline(life)
    life.run("redco eject launch/slurm.sbatch")
    (life.folder / "launch/slurm.sbatch").unlink()
    (life.folder / "launch/hosts.sh").unlink()
    life.run(f"{life.train} --steps 4 --save-every 2 --workdir {RUNS}")
    return life


@pytest.fixture(scope="module")
def moved(life):
    """`redco update --shards 8`, and the second half of the training again, on that mesh."""
    before, losses = life.tree(), life.losses(RUNS)
    out, _ = life.run("redco update --shards 8")
    after = life.tree()
    shutil.rmtree(life.folder / RUNS / "checkpoints/4")
    said, _ = life.run(f"{life.train} The --steps 4 --workdir {RUNS}")
    return SimpleNamespace(
        before=before, after=after, out=out, said=said, losses=(losses, life.losses(RUNS))
    )


def test_more_devices_change_the_mesh_and_no_edit(moved):
    found = changed(moved.before, moved.after)
    written = {"README.md", "AGENTS.md", "my_project/train.py"}
    assert found == {*written, "launch/hosts.sh", SHARDING, "redco.toml"}
    assert "      ~ model 4 -> 8\n" in moved.out and moved.out.count("note:") == 1
    assert "  launch/hosts.sh              restored\n" in moved.out
    before, after = (tree[SHARDING].decode() for tree in (moved.before, moved.after))
    assert specs(after, "AXES")["model"] == 8 and specs(after) == specs(before)
    assert "launch/slurm.sbatch" not in moved.after


def test_the_edited_functions_run(moved):
    first = moved.losses[0][1]
    assert first == pytest.approx(math.log2(384), rel=0.03)  # in bits: a byte's tokens are alike
    sample = next(line for line in moved.said.splitlines() if line.startswith("  'The' -> "))
    assert len(eval(sample.partition(" -> ")[2])) <= 4  # NEW_TOKENS


def test_a_run_goes_on_over_the_new_mesh_as_over_the_old(moved):
    one, other = moved.losses
    assert "resuming from step 2 " in moved.said
    assert [*one] == [*other] == [1, 2, 3, 4]
    assert other == pytest.approx(one, rel=1e-4) and other[4] < other[1] - 1


@pytest.fixture(scope="module")
def grown(life, moved):
    """New sizes, an adapter with dropout in each layer, a bias less, a norm renamed: updated twice."""
    life.edit("my_project/model.py", MODEL)
    life.edit("my_project/config.py", {"mlp_dim=512": "mlp_dim=768"})
    before = life.tree()
    out, _ = life.run("redco update")
    after = life.tree()
    again, _ = life.run("redco update")
    return SimpleNamespace(before=before, after=after, out=out, again=again)


def test_each_new_parameter_has_its_spec(grown):
    before, after = (specs(tree[SHARDING].decode()) for tree in (grown.before, grown.after))
    gone = {"head/bias", "ln/bias", "ln/scale"}
    # 64 features are too few for an all-reduce to pay: whole over model.
    new = {
        "layers/adapter/squeeze/kernel": "P(None, 'fsdp', None)",
        "layers/adapter/expand/kernel": "P(None, None, 'fsdp')",
        "norm/bias": "P(None)",
        "norm/scale": "P(None)",
    }
    kept = {path: spec for path, spec in before.items() if path not in gone}
    assert after == kept | {path: eval(spec) for path, spec in new.items()}
    for path, spec in new.items():
        assert f"      + {path} {spec}\n" in grown.out
    assert all(f"      - {path} P(" in grown.out for path in gone)


def test_only_what_follows_from_the_model_is_rewritten(grown):
    found = changed(grown.before, grown.after)
    # config.py has the names that may be saved for the backward pass, with their bytes.
    config = "my_project/config.py"
    assert found == {"README.md", config, SHARDING, "tests/test_sharding.py"}
    assert grown.again.startswith(
        "my-project: nothing to update.\nnote: tensors() in my_project/weights.py"
    )


def test_its_own_tests_pass(life, grown):
    out, _ = life.run("python -m pytest -q tests/test_sharding.py -k 'one_spec or 1]'")
    assert "2 passed" in out


def test_a_checkpoint_of_before_is_refused_tensor_by_tensor(life, grown):
    before = life.tree("runs")
    _, err = life.run(f"{life.train} --steps 6 --workdir {RUNS}", code=2)
    for line in (
        "layers/mlp/up/bias: float32[2, 512] there, float32[2, 768] in the model",
        "head/bias: float32[384] there, absent in the model",
        "layers/adapter/squeeze/kernel: absent there, float32[2, 128, 64] in the model",
        "norm/scale: absent there, float32[128] in the model",
    ):
        assert f"  {line}\n" in err
    assert "another --workdir: --init " in err
    assert life.tree("runs") == before


def test_a_new_run_starts_from_what_fits(life, grown):
    out, _ = life.run(f"{life.train} --steps 2 --mlp-dim 512 --workdir runs/b --init {RUNS}")
    assert "head/bias, ln/bias, ln/scale" in out and "starting from the weights of runs/a" in out
    # One norm is new again: the rest of what was learned is there.
    assert life.losses("runs/b")[1] < life.losses(RUNS)[1] - 1
