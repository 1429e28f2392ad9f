"""What is measured of one program, on the compiler for CPUs, which warns as the others do."""

import jax
import pytest
from compiled.program import held, measure, totals
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from redco_fit.compiled.hlo import Collective
from sharding.zoo import B, D, S, shapes


@pytest.mark.parametrize(("split", "warned"), [(P("a", None, "b"), True), (P(), False)])
def test_an_involuntary_rematerialization_is_counted(split, warned):
    mesh = jax.make_mesh((2, 2), ("a", "b"), (AxisType.Auto,) * 2)

    def forward(params, batch):
        x = params["w"].reshape(4, 16, 64).transpose(1, 0, 2)
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, split))

    found = measure(forward, shapes(w=(64, 64)), {}, {"w": P(("a", "b"))}, mesh)
    assert bool(found["remats"]) == warned
    assert found["counts"]


def test_units_are_all_reduces_of_the_residual_stream():
    found = [Collective("all-reduce", 2 * B * S * D, runs=3), Collective("all-gather", B * S * D)]
    assert totals(found, 4) == {"counts": {"all-reduce": 3, "all-gather": 1}, "units": 3.25}


def test_the_share_that_a_device_holds():
    assert held(shapes(a=(8, 3), b=(8,)), {"a": P("model"), "b": P()}, 4) == (6 + 8) / 32
