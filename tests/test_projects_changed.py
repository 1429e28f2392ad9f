"""Projects whose user changed model.py, and did not run `redco update`."""

import sys

import pytest
from generated import make, metrics, run

LAYOUTS = {"tensor": {}, "sequence": {"sequence_parallel": True}}
DROPOUT = {
    "        self.down = _linear(config, config.mlp_dim, config.embed_dim, rngs)\n": (
        "        self.down = _linear(config, config.mlp_dim, config.embed_dim, rngs)\n"
        "        self.dropout = nnx.Dropout(0.1, rngs=rngs)\n"
    ),
    '        return self.down(lay_out(jax.nn.gelu(u_BSF, approximate=True), "a_BSF"))\n': (
        '        a_BSF = lay_out(jax.nn.gelu(u_BSF, approximate=True), "a_BSF")\n'
        "        return self.dropout(self.down(a_BSF))\n"
    ),
}
LOWERED = """
import jax
jax.config.update("jax_num_cpu_devices", 4)
from my_project.config import TINY
from my_project.steps import build
from my_project.runtime.layout.mesh import make_mesh

with jax.set_mesh(make_mesh({"data": 1, "fsdp": 2, "model": 2})):
    steps = build(TINY)
    shapes = {"input_ids": "int32", "mask": "bool"}
    batch = {k: jax.ShapeDtypeStruct((16, 128), d, sharding=steps.batch) for k, d in shapes.items()}
    key = jax.eval_shape(lambda: jax.random.key(0))
    valid = jax.ShapeDtypeStruct((16,), "bool", sharding=steps.batch)
    for step, *arguments in (
        (steps.train, steps.state, batch),
        (steps.evaluate, steps.state.model, batch, valid),
        (steps.predict, steps.state.model, batch, key),
    ):
        print(step.lower(*arguments).as_text().count("sharding_constraint"))
"""


def edit(folder, texts):
    path = folder / "my_project" / "model.py"
    model = path.read_text()
    for old, new in texts.items():
        assert model.count(old) == 1, old
        model = model.replace(old, new)
    path.write_text(model)


def constraints(folder):
    """How many sharding constraints the programs of train, evaluate and predict have."""
    code, out, err = run(f"{sys.executable} -c '{LOWERED}'", folder)
    assert code == 0, err
    return list(map(int, out.split()))


@pytest.mark.slow  # it traces three programs of a project, twice
@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
def test_a_dropout_leaves_the_activations_where_they_are(options, tmp_path):
    folder = make(tmp_path, mesh="fsdp=2,model=2", **options)
    before = constraints(folder)
    edit(folder, DROPOUT)
    assert constraints(folder) == before and min(before) > 5


@pytest.fixture(scope="module")
def dropout(tmp_path_factory):
    """A project with a Dropout in each layer."""
    folder = make(tmp_path_factory.mktemp("changed"), shards="2")
    edit(folder, DROPOUT)
    return folder


@pytest.mark.slow
def test_a_model_with_a_dropout_trains(dropout):
    train = "python -m my_project.train --preset tiny --virtual-devices 2"
    code, out, err = run(f"{train} --steps 2 --sample-prompts --workdir r", dropout)
    assert code == 0, out + err
    assert len(metrics(dropout / "r")) == 2


def test_a_new_parameter_asks_for_an_update(dropout):
    folder = dropout
    edit(
        folder,
        {
            "        self.mlp = MLP(config, rngs)\n": (
                "        self.mlp = MLP(config, rngs)\n        self.scale = nnx.Param(jnp.ones(3))\n"
            )
        },
    )
    command = "python -m my_project.train --preset tiny --virtual-devices 2 --workdir new"
    code, out, err = run(command, folder)
    assert code == 2 and "Traceback" not in err, out + err
    assert "layers/scale: a parameter without a spec" in err
    assert "`redco update` works the table out anew" in err
    assert not (folder / "new").exists()
