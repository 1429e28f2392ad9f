"""The committed table of the Redco paper's models, against a row that is compiled anew."""

import os

import pytest
from compiled.performance import read
from compiled.table1 import COLUMNS, ROWS, TABLE, cells_of, measure, written
from compiled.targets import folder

from redco_new.fit.compilers import FOLDER

CHEAP = ROWS[1]  # gpt2 large for 2 x 1080Ti


def test_what_the_paper_trains_fits_and_the_next_size_is_refused():
    cells = read(TABLE.read_text())
    assert written(cells) == TABLE.read_text()
    verdicts = {
        name: dict(zip(COLUMNS, row, strict=True))["verdict"] for name, row in cells.items()
    }
    assert verdicts == {row.name: "fits" if row.fits else "refused" for row in ROWS}


@pytest.mark.slow  # the compiler of a GPU
def test_the_table_says_what_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, os.fspath(folder()))
    committed = dict(zip(COLUMNS, read(TABLE.read_text())[CHEAP.name], strict=True))
    ours = dict(zip(COLUMNS, cells_of(CHEAP, measure(CHEAP, tmp_path)), strict=True))
    assert float(ours["peak GiB"]) == pytest.approx(float(committed["peak GiB"]), rel=0.03)
    assert (ours["verdict"], ours["saved"]) == (committed["verdict"], committed["saved"])
