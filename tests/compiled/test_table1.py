"""The committed table of the Redco paper's models, against rows that are compiled anew."""

import pytest
from compiled.targets import use_compilers
from tables.performance import read
from tables.table1 import COLUMNS, ROWS, TABLE, Row, cells_of, measure, written

CHEAP = ROWS[1]  # gpt2 large for 2 x 1080Ti


def by_column(cells: list[str]) -> dict[str, str]:
    return dict(zip(COLUMNS, cells, strict=True))


def test_what_the_paper_trains_fits_and_the_next_size_is_refused():
    cells = read(TABLE.read_text())
    assert written(cells) == TABLE.read_text()
    verdicts = {name: by_column(row)["verdict"] for name, row in cells.items()}
    assert verdicts == {row.name: "fits" if row.fits else "refused" for row in ROWS}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.slow if row is CHEAP else pytest.mark.long, id=row.name)
        for row in ROWS
    ],
)
def test_the_table_says_what_is_compiled(row: Row, tmp_path, monkeypatch):
    use_compilers(monkeypatch)
    committed = by_column(read(TABLE.read_text())[row.name])
    reading = measure(row, tmp_path)
    ours = by_column(cells_of(row, reading))
    assert reading.fits == row.fits
    assert float(ours["peak GiB"]) == pytest.approx(float(committed["peak GiB"]), rel=0.03)
    assert (ours["verdict"], ours["saved"]) == (committed["verdict"], committed["saved"])
