"""What the pages of the estimates say holds."""

import statistics

import pytest
from redco_fit.search.choice import COMPARED
from redco_fit.target import parse_target
from redco_new.render.template import open_template
from tables import published
from tables.estimates import PAGE, POINTS, agreement, read


def test_the_estimates_rank_as_the_compiler_and_take_nothing_for_fitting_that_it_refuses():
    cells = read(PAGE.read_text())
    assert len(cells) >= 60 and {*cells} == {point.name for point in POINTS}
    pairs = [(float(own[0]), float(own[1])) for own in cells.values()]
    assert agreement(pairs) >= 0.8
    assert all(float(own[3]) >= float(own[4]) for own in cells.values())


def test_agreement_is_one_of_what_is_in_order_and_nothing_of_ties():
    assert agreement([(1, 1), (2, 2), (3, 3)]) == 1
    assert agreement([(1, 3), (2, 2), (3, 1)]) == -1
    assert agreement([(1, 1), (1, 2)]) == 0


def test_published_steps_are_estimated_as_the_page_says():
    cells = published.read(published.PAGE.read_text())
    assert [*cells] == [published.name_of(row) for row in published.ROWS]
    row = next(row for row in published.ROWS if row.size == "7b")
    with open_template() as template:
        ours, theirs = published.compare(row, template)
    assert [ours, theirs] == pytest.approx(
        [float(c) / 1e3 for c in cells[published.name_of(row)][:2]], rel=1e-3
    )


def test_published_steps_are_as_many_as_the_search_says_it_was_compared_with():
    errors = [abs(float(own[2]) - 1) for own in published.read(published.PAGE.read_text()).values()]
    assert len(errors) >= 8 and statistics.median(errors) <= 0.15
    machines = [parse_target(row.hardware) for row in published.ROWS]
    for platform, most in COMPARED.items():
        assert most == max(one.devices for one in machines if one.hardware.platform == platform)
