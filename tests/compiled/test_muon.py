"""Muon's update as an H100 would run it, of two kinds of matrices of a model of 1B parameters."""

import json
import subprocess
import sys

import pytest
from compiled.targets import environment

PROGRAM = """
import json
import jax
from redco_fit.compiled.hlo import collectives
from compiled.targets import mesh_of
from jax.sharding import NamedSharding, PartitionSpec as P
from redco_runtime.step.muon import scale_by_muon

shapes = {"up": (16, 2048, 8192), "down": (16, 8192, 2048), "q": (16, 2048, 2048)}
specs = {"up": P(None, None, "model"), "down": P(None, "model", None), "q": P(None, None, "model")}
rule = scale_by_muon()
with jax.set_mesh(mesh_of("h100")):
    places = {k: NamedSharding(jax.sharding.get_mesh(), spec) for k, spec in specs.items()}
    grads = {k: jax.ShapeDtypeStruct(s, "float32", sharding=places[k]) for k, s in shapes.items()}
    def update(grads, state):
        return rule.update(grads, state, grads, specs=specs)
    state = jax.eval_shape(rule.init, grads)
    state = jax.tree.map(lambda x, y: x.update(sharding=y.sharding), state, (state[0]._replace(trace=grads), state[1]))
    text = jax.jit(update, out_shardings=(places, None)).lower(grads, state).compile().as_text()
print(json.dumps([[one.kind, one.runs, one.bytes] for one in collectives(text, 4)]))
"""


@pytest.mark.slow
def test_matrices_move_twice_and_nothing_is_sent_while_they_are_turned():
    env = environment()
    env["PYTHONPATH"] += ":runtime"
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    moves = json.loads(done.stdout.splitlines()[-1])
    # Two kinds, there and back, in bfloat16: the 32 of up and down, and the 16 of q.
    assert {kind for kind, _, _ in moves} == {"all-to-all"} and {runs for _, runs, _ in moves} == {
        1
    }
    sizes = sorted(size for _, _, size in moves)
    assert sizes == [16 * 2048**2 // 2] * 2 + [32 * 2048 * 8192 // 2] * 2
