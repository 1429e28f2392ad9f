"""The table is written and read alike."""

from tables.markdown import cell, read, written

RECORD = {
    **{"target": "v5e", "model": "m", "layout": "ours", "held": 0.25, "remats": 0},
    **{"counts": {"all-reduce": 4, "all-to-all": 2.5}, "units": 4.33},
}


def test_a_cell():
    assert cell(RECORD) == "4 AR, 2.5 A2A; 4.33; 25 %"
    assert cell(RECORD | {"counts": {}, "units": 0, "remats": 2}) == "none; 0.00; 25 %; 2 remat"


def test_what_is_written_is_read():
    layouts = ("layer", "ours", "redco")
    records = [
        RECORD | {"target": target, "layout": layout, "units": n}
        for n, target in enumerate(("h100", "v5e"))
        for layout in layouts
    ]
    assert read(written(records)) == {
        (r["target"], r["model"], r["layout"]): cell(r) for r in records
    }
