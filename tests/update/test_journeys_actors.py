"""A project of an actor and a critic, edited to play another environment, updated, and trained on."""

import pytest
from redco_new.project.create import create_project
from redco_new.request import Request
from update.journeys import Life, specs

pytestmark = pytest.mark.slow


def test_both_models_are_laid_out_anew_for_another_environment(tmp_path):
    request = Request.from_flags("my-project", None, recipe="ppo", shards="2")
    life = Life(create_project(request, tmp_path), "my_project", 2)
    wide = {"inputs: int = 4": "inputs: int = 6", "outputs: int = 2": "outputs: int = 3"}
    scale = "        self.scale = nnx.Param(jnp.ones(config.width))\n"
    head = {
        "        small = ": f"{scale}        small = ",
        "self.head(x_F)": "self.head(x_F * self.scale)",
    }
    life.edit("my_project/model.py", wide | head)
    life.edit("my_project/config.py", {"CartPole-v1": "Acrobot-v1"})
    said, _ = life.run("redco update")
    assert "the layout is that of the recipe's own loss" not in said and "not tried" not in said
    assert "scale" in specs(life.read("my_project/sharding.py"), "ACTOR")
    assert '"critic": ACTOR' in life.read("my_project/sharding.py")
    for steps in (1, 2):
        life.run(f"{life.train} --round-length 70 --steps {steps} --save-every 1 --workdir runs/a")
    assert [*life.losses("runs/a")] == [1, 2]
    _, err = life.run(f"{life.train} --environment CartPole-v1 --steps 1 --workdir runs/b", code=2)
    assert len(err.strip().splitlines()) == 1
