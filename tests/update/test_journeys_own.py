"""The project of a user's own class, which lies in another file: the class changes, and its pipeline."""

import math
from types import SimpleNamespace

import pytest
from jax.sharding import PartitionSpec as P

from redco_new.project.create import create_project
from redco_new.request import Request
from update.journeys import Life, changed, specs

pytestmark = pytest.mark.slow  # whole lives of projects, trained before and after

SHARDING = "net/sharding.py"
CNN = '''"""An image classifier."""

from flax import nnx


class CNN(nnx.Module):
    def __init__(self, features: tuple[int, ...], classes: int = 10, *, rngs: nnx.Rngs):
        self.conv1 = nnx.Conv(1, features[0], (3, 3), strides=2, rngs=rngs)
        self.conv2 = nnx.Conv(features[0], features[1], (3, 3), rngs=rngs)
        self.head = nnx.Linear(features[1], classes, rngs=rngs)

    def __call__(self, image):
        x = nnx.relu(self.conv1(image))
        x = nnx.relu(self.conv2(x)).mean((1, 2))
        return self.head(x)
'''
TOML = '[model]\nfeatures = [8, 16]\n[inputs]\nimage = {shape = ["B", 8, 8, 1]}\n'
PIPELINE = {
    "CLASSES = 10\n": "CLASSES = 10\nSURE = 0.9\n",
    "import numpy as np\n": "import numpy as np\nimport math\n",
    '    losses_B = class_losses(logits_BC, batch["label"])\n': (
        '    losses_B = SURE * class_losses(logits_BC, batch["label"])\n'
    ),
    "    return losses_B, jnp.ones_like(losses_B)\n": (
        "    return losses_B / math.log(2), jnp.ones_like(losses_B)  # bits\n"
    ),
    "        rows.append(example)\n": (
        "        rows.append(example)\n"
        '        rows.append(example | {"image": example["image"][:, ::-1]})  # mirrored\n'
    ),
}
GROWN = {
    "features: tuple[int, ...], classes: int = 10,": "features, hidden, classes=10,",
    "        self.head = nnx.Linear(features[1], ": (
        "        self.norm = nnx.BatchNorm(features[1], rngs=rngs)\n"
        "        self.up = nnx.Linear(features[1], hidden, rngs=rngs)\n"
        "        self.head = nnx.Linear(hidden, "
    ),
    "        return self.head(x)": "        return self.head(nnx.relu(self.up(self.norm(x))))",
}


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """A project of a CNN beside it, with a loss and examples of its user, trained for 2 steps."""
    folder = tmp_path_factory.mktemp("journey")
    (folder / "cnn.py").write_text(CNN)
    (folder / "cnn.toml").write_text(TOML)
    request = Request.from_flags(
        "net",
        f"{folder}/cnn.py:CNN",
        mesh="data=2,model=2",
        recipe="classify",
        config=f"{folder}/cnn.toml",
        folder=folder / "net",
    )
    life = Life(create_project(request, folder), "net", 4)
    life.edit("net/pipeline.py", PIPELINE)
    life.run(f"{life.train} --steps 2 --workdir runs/a")
    return life


@pytest.fixture(scope="module")
def grown(life):
    """The class gets a wider layer, a new one, whose size is an argument, and running statistics."""
    life.edit("../cnn.py", GROWN)
    life.edit("redco.toml", {"features = [8, 16]": "features = [8, 32]\nhidden = 48"})
    before = life.tree()
    out, _ = life.run("redco update")
    life.run(f"{life.train} --steps 2 --workdir runs/b")
    return SimpleNamespace(before=before, after=life.tree(), out=out)


def test_the_specs_are_those_of_the_class_as_it_is(grown):
    before, after = (specs(x[SHARDING].decode()) for x in (grown.before, grown.after))
    new = {
        "net/head/kernel": P("fsdp", None),  # what comes to it is whole by now
        "net/norm/bias": P("model"),
        "net/norm/scale": P("model"),
        "net/up/bias": P(None),
        "net/up/kernel": P("model", "fsdp"),
    }
    assert before["net/head/kernel"] == P("model", "fsdp")
    assert after == before | new


def test_what_follows_from_the_class_is_rewritten_and_no_edit(grown):
    model = "net/model.py"
    found = changed(grown.before, grown.after)
    assert found == {"README.md", model, SHARDING, "tests/test_sharding.py"}
    assert "note:" not in grown.out and "+ CNNConfig.hidden" in grown.out
    assert b"    hidden: int = 48\n" in grown.after[model]
    arguments = b"features=config.features, hidden=config.hidden, rngs=rngs"
    assert arguments in grown.after[model]


def test_it_trains_before_and_after_with_its_users_loss(life, grown):
    for workdir in ("runs/a", "runs/b"):
        losses = life.losses(workdir)
        assert [*losses] == [1, 2]
        assert losses[1] == pytest.approx(math.log2(10), rel=0.2)  # in bits
