"""The committed table of estimates: what its formulas say now, and how near they are to what was compiled."""

import pytest
from redco_new.render.template import open_template
from tables.estimates import EXPERTS, PAGE, POINTS, estimate, read, written

# In order of the page: estimated ms, compiled ms, ratio, estimated peak GB, compiled peak GB.
MILLISECONDS, COMPILED, RATIO, PEAK, COMPILED_PEAK = range(5)


@pytest.fixture(scope="module")
def cells():
    return read(PAGE.read_text())


def test_the_page_is_what_its_cells_make(cells):
    assert written(cells) == PAGE.read_text()
    assert {*cells} <= {point.name for point in POINTS}


def test_no_peak_is_estimated_below_the_compiled_one(cells):
    for name, own in cells.items():
        assert float(own[PEAK]) >= float(own[COMPILED_PEAK]), name


def test_seconds_are_near_the_compiled_ones(cells):
    """Of experts too, on every axis. A latency for each hop is in the estimate, and XLA hides some of it in small steps."""
    ratios = {name: float(own[RATIO]) for name, own in cells.items()}
    assert all(0.8 <= ratio <= 1.35 for ratio in ratios.values()), ratios
    experts = [ratios[point.name] for point in EXPERTS if point.name in ratios]
    assert len(experts) == len(EXPERTS) and all(0.9 <= ratio <= 1.1 for ratio in experts), experts


@pytest.mark.parametrize("name", ["gpt2 xl, fsdp 8,", "qwen3-moe 30b-a3b, fsdp 4 x expert 4,"])
def test_the_page_says_what_is_estimated_now(cells, name):
    point = next(point for point in POINTS if point.name.startswith(name))
    with open_template() as template:
        one = estimate(point, template)
    own = cells[point.name]
    assert float(own[MILLISECONDS]) == pytest.approx(1e3 * one.bound_seconds, abs=1)
    assert float(own[PEAK]) == pytest.approx(one.memory.peak / 1e9, abs=0.06)
