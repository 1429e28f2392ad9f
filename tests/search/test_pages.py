"""What the pages of the estimates say holds."""

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
