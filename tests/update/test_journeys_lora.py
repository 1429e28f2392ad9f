"""A project that its user edits and trains, that then trains an adapter, and then the whole model again."""

import json
import re

import pytest
from update.journeys import Life

from redco_new.project.create import create_project
from redco_new.request import Request

# What its user changes: an MLP whose units are halved.
EDIT = {
    'u_BSF = lay_out(self.up(h_BSD), "u_BSF")': 'u_BSF = lay_out(0.5 * self.up(h_BSD), "u_BSF")'
}


def held_out(out: str) -> list[str]:
    """The held-out losses that a run printed."""
    return re.findall(r"held-out loss ([\d.]+)", out)


@pytest.mark.long
def test_a_model_is_trained_then_an_adapter_of_it_then_the_model(tmp_path):
    life = Life(create_project(Request.from_flags("my-project", "gpt2"), tmp_path), "my_project", 1)
    life.edit("my_project/model.py", EDIT)
    edited = life.tree()
    whole, _ = life.run(f"{life.train} --steps 2 --workdir runs/a")
    life.run("python -m my_project.export --workdir runs/a --out base")

    life.run("redco update --lora rank=2,alpha=4")
    assert "0.5 * self.up" in life.read("my_project/model.py")
    assert "with_lora(" in life.read("my_project/steps.py")
    adapter, _ = life.run(f"{life.train} --steps 2 --init runs/a --workdir runs/b")
    assert "starting from the weights of runs/a" in adapter
    assert held_out(adapter)[0] == held_out(whole)[-1] != held_out(adapter)[-1]
    more, _ = life.run(f"{life.train} --steps 3 --workdir runs/b")
    assert "resuming from step 2 " in more and held_out(more)[0] != held_out(whole)[-1]

    err = life.run("redco update --lora rank=2,alpha=4,base=int8")[1]
    assert "Traceback" not in err
    _, err = life.run(f"{life.train} --steps 1 --init runs/a --workdir runs/c", code=2)
    assert "does not have what is frozen in this model" in err and "--merge" in err
    blocks, _ = life.run(f"{life.train} --steps 2 --init base --workdir runs/q")

    life.run("redco update --lora off")
    assert life.tree()["my_project/model.py"] == edited["my_project/model.py"]
    for start, before, workdir in (("runs/b", more, "runs/d"), ("runs/q", blocks, "runs/e")):
        back, _ = life.run(f"{life.train} --steps 1 --init {start} --workdir {workdir}")
        assert f"the adapter of {start}/checkpoints is added" in back and "left out" not in back
        assert "as in a new model" not in back
        assert float(held_out(back)[0]) == pytest.approx(float(held_out(before)[-1]), abs=2e-4)


@pytest.mark.long
def test_a_head_is_trained_beside_an_adapter_and_goes_along(tmp_path):
    request = Request.from_flags("my-project", "gpt2", recipe="reward")
    life = Life(create_project(request, tmp_path), "my_project", 1)
    life.run(f"{life.train} --steps 2 --workdir runs/a")
    life.run("python -m my_project.export --workdir runs/a --out base")

    life.run("redco update --lora rank=2,alpha=4,dora=true,dropout=0.1")
    first, _ = life.run(f"{life.train} --steps 2 --init base --workdir runs/b")
    more, _ = life.run(f"{life.train} --steps 4 --workdir runs/b")
    assert "resuming from step 2 " in more and held_out(more)[-1] != held_out(first)[0]
    life.run("python -m my_project.export --workdir runs/b --out adapter")
    life.run("python -m my_project.export --workdir runs/b --out whole --merge")
    config = json.loads(life.read("adapter/adapter_config.json"))
    assert config["modules_to_save"] == ["score"] and config["task_type"] == "SEQ_CLS"
    again, _ = life.run(f"{life.train} --steps 1 --init adapter --workdir runs/c")
    assert held_out(again)[0] == held_out(more)[-1]

    life.run("redco update --lora off")
    for start, workdir in (("whole", "runs/d"), ("runs/b", "runs/e")):
        back, _ = life.run(f"{life.train} --steps 1 --init {start} --workdir {workdir}")
        assert float(held_out(back)[0]) == pytest.approx(float(held_out(more)[-1]), abs=2e-4)
