"""A project whose answers a server draws: PyTorch, by the weights that it is handed, and what becomes of a run without it."""

import pytest
from generated import metrics, run
from rollouts import Fake, Transformers

from redco_new.project.create import create_project
from redco_new.request import Request

TRAIN = (
    "python -m my_project.train --preset tiny --virtual-devices 1 --log-every 1 --eval-every 100 "
    "--save-every 2 --workdir runs/a --rollouts {} --rollout-deadline {} --steps {}"
)


@pytest.mark.slow
def test_another_engine_draws_and_is_followed(tmp_path):
    request = Request.from_flags("my-project", "llama", recipe="grpo", features="rollouts")
    project = create_project(request, tmp_path)
    engine = Transformers()
    fake = Fake(engine.draw, engine.reload)
    with fake.serving() as url:
        code, out, err = run(TRAIN.format(url, 60, 6) + " --stale-steps 2", project)
    assert code == 0, out + err
    lines = metrics(project / "runs/a")
    assert [line["stale_steps"] for line in lines] == [0, 0, 2, 2, 0, 0]
    assert len(engine.folders) == 2
    fresh, stale = lines[0]["apart"], lines[2]["apart"]
    assert fresh < 1e-5 and stale > 10 * fresh  # of the same weights, of older ones
    assert lines[0]["importance"] == pytest.approx(1, abs=1e-5) and lines[0]["truncated"] == 0

    code, out, err = run(TRAIN.format(url, 2, 8), project)  # it died
    assert code == 2 and len(err.strip().splitlines()) == 1, err
    assert "gave no answer for 2 s" in err and "start it, and the same command goes on" in err

    with fake.serving() as url:
        code, out, err = run(TRAIN.format(url, 60, 8), project)
        assert code == 0 and "resuming from step 6" in out, out + err
        fake.faults = [0, lambda x: x | {"choices": x["choices"][1:]}]
        code, out, err = run(TRAIN.format(url, 60, 10), project)
    assert code == 2 and len(err.strip().splitlines()) == 1 and "nothing of it is used" in err, err

    code, out, err = run(TRAIN.format("''", 60, 10), project)  # by its own engine
    assert code == 0 and metrics(project / "runs/a")[-1]["importance"] == 1, out + err
