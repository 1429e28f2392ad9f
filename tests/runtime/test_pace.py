import jax

from redco_runtime.step import guard as pace


def test_it_waits_for_the_result_that_is_too_far_behind(monkeypatch):
    waited = []
    monkeypatch.setattr(jax, "block_until_ready", waited.append)
    keep = pace.Pace()
    for step in range(pace.AHEAD + 3):
        keep(step)
    assert waited == [0, 1, 2]
