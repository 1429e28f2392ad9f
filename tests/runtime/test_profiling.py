"""--profile: the steps that are traced, and what is refused."""

import gzip
import json

import jax
import jax.numpy as jnp
import pytest

from redco_runtime.base.messages import UserError
from redco_runtime.monitor.profiling import Profile, parse_steps


@pytest.mark.parametrize("text", ["10", "10:", "13:10", "0:3", "a:b", "1:2:3", "-1:3", " "])
def test_what_is_no_span_is_refused(run, tmp_path, text):
    with pytest.raises(
        UserError, match="is no span of steps: give the first and the last, as 10:13"
    ):
        run(tmp_path / "run", profile=text)
    assert not (tmp_path / "run").exists()


def test_steps_that_are_never_made_are_refused():
    assert parse_steps("3:6", 6) == range(3, 7) and not parse_steps("", 6)
    with pytest.raises(UserError, match="--profile: 3:7 is more than the 6 --steps of the run"):
        parse_steps("3:7", 6)


@pytest.fixture
def traces(monkeypatch):
    """What happens to the profiler."""
    calls = []
    monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: calls.append(str(folder)))
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: calls.append("stop"))
    return calls


@pytest.mark.parametrize(
    ("first", "total", "steps"),
    [(1, 9, [3, 4, 5]), (4, 9, [4, 5]), (1, 4, [3, 4]), (6, 9, []), (1, 2, [])],
)
def test_the_steps_that_are_traced(tmp_path, traces, first, total, steps):
    said = []
    with Profile(range(3, 6), tmp_path, said.append) as profile:
        for step in range(first, total + 1):
            profile(step, jnp.zeros(()))
            traces.append(step)
    folder = str(tmp_path / "profile" / "process-0")
    inside = traces[traces.index(folder) + 1 : traces.index("stop")] if steps else []
    assert inside == steps and traces.count(folder) == traces.count("stop") == bool(steps)
    assert said == [f"profile: {folder}"] * bool(steps)


def test_a_trace_that_cannot_be_written_stops_no_run(tmp_path, traces, monkeypatch):
    def fail():
        raise OSError("No space left on device")

    monkeypatch.setattr(jax.profiler, "stop_trace", fail)
    said = []
    with Profile(range(1, 2), tmp_path, said.append) as profile:
        profile(1, jnp.zeros(()))
    assert said[0].startswith("note: no profile in ") and said[0].endswith(
        ": No space left on device"
    )


def test_a_run_leaves_a_trace(run, tmp_path):
    run(tmp_path, profile="2:3", steps=4)
    (path,) = (tmp_path / "profile" / "process-0").glob("plugins/profile/*/*.trace.json.gz")
    names = {event.get("name") for event in json.loads(gzip.open(path).read())["traceEvents"]}
    assert any("jit_train" in str(name) or "PjitFunction" in str(name) for name in names), names
    assert list(path.parent.glob("*.xplane.pb"))
