"""Products in 8 bits, as compilers have them: the committed table, and small programs compiled anew."""

import pytest
from redco_new.project.create import create_project
from redco_new.request import Request
from tables import products
from tables.collectives import run_module

CELLS = products.read(products.TABLE.read_text())
LAYERS, LINEAR = 32, 7  # of the rows' models; linear layers of each


def row(name):
    return dict(zip(products.COLUMNS, map(float, CELLS[name]), strict=True))


def test_the_table_is_as_it_is_written():
    assert products.written(CELLS) == products.TABLE.read_text()


@pytest.mark.parametrize(
    "of",
    [one for one in products.COMPILED if products.name_of(one, "float8") in CELLS],
    ids=lambda one: one.name,
)
def test_steps_are_faster_send_half_and_take_no_more_memory(of):
    plain, coded = (row(products.name_of(of, name)) for name in products.PRODUCTS)
    assert coded["step"] <= 0.76 * plain["step"]
    assert coded["gathered"] <= 0.55 * plain["gathered"] and coded["peak"] <= plain["peak"]
    # Forward, for x and for the kernel; more where layers compute again.
    assert plain["calls"] == 0 and coded["calls"] >= 0.95 * 3 * LINEAR * LAYERS


@pytest.mark.parametrize("of", products.ON_TPU, ids=lambda one: one.target)
def test_on_tpus_two_of_three_products_are_of_integers(of):
    plain, coded = (
        dict(zip(products.TPU_COLUMNS, map(float, CELLS[products.name_of(of, name)]), strict=True))
        for name in products.TPU_PRODUCTS
    )
    assert plain["share"] == 0 and coded["share"] > 60
    assert coded["step"] < 0.9 * plain["step"] and coded["sent"] < 0.75 * plain["sent"]


@pytest.mark.parametrize("model", [x for x in products.TRAINED if f"{x}, float8" in CELLS])
def test_losses_are_within_the_spread_of_seeds(model):
    plain, coded = (list(map(float, CELLS[f"{model}, {name}"])) for name in products.PRODUCTS)
    *_, mean, spread = plain
    assert coded[-2] - mean <= spread


@pytest.mark.slow  # the compilers of H100 and of a TPU
@pytest.mark.parametrize(
    ("target", "name", "calls", "share"),
    [("h100:4", "float8", 3 * 2 * LINEAR, 31), ("v5p:2x2x1", "int8", 0, 50)],
)
def test_two_layers_multiply_codes_and_send_them(target, name, calls, share, tmp_path):
    request = Request.from_flags("small", "llama", size="3.2-1b", mesh="fsdp=4", products=name)
    folder = create_project(request, tmp_path)
    sizes = ("num_layers=2", "vocab_size=4096", "embed_dim=1024", "mlp_dim=4096", "num_heads=16")
    small = run_module("tables.products_row", str(folder), "fsdp=4", "8", "128", target, *sizes)[0]
    assert small["calls"] == calls
    # The head is most of the rest; of int8, gradients of kernels are too.
    assert small["share"] > share
