"""report: what it prints and draws of a run, of half a run, and of what is none."""

import json
import sys
from html.parser import HTMLParser

import pytest
from PIL import Image

from redco_new.cli import redco_app, run
from redco_new.report.curve import draw_svg, draw_text, thin


@pytest.fixture
def write(tmp_path):
    """write(name, *records): a file of the work folder."""

    def write(name, *records):
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records))

    return write


@pytest.fixture
def folder(write, tmp_path):
    """A work folder: 30 steps, a kill after 25, and a restart from 20."""
    write("metrics.jsonl", *({"step": n, "loss": 3 / n, "mfu": None} for n in range(1, 31)))
    write("eval.jsonl", {"step": 0, "loss": 4.0}, {"step": 30, "loss": 0.2})
    spans = [{"event": "steps", "step": n, "steps": 5, "seconds": 5} for n in (5, 10, 15, 20, 25)]
    events = [
        {"event": "start", "step": 0, "seconds": 0},
        {"event": "boot", "step": 0, "seconds": 4},
        *spans,
        {"event": "fault", "step": 25, "seconds": 0, "text": "process 1 <on> host1 is gone"},
        {"event": "restart", "step": 20, "seconds": 6, "lost_steps": 5},
        {"event": "steps", "step": 30, "steps": 10, "seconds": 10},
    ]
    write("events.jsonl", *({"time": 0} | event for event in events))
    return tmp_path


@pytest.fixture
def call(capsys):
    """call(*args): (exit code, stdout, stderr) of the command."""

    def call(*args):
        code = run(redco_app, "redco", ["report", *map(str, args)])
        return code, *capsys.readouterr()

    return call


class Page(HTMLParser):
    """What a page consists of, and what it would load."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_what_is_printed(call, folder):
    code, out, err = call(folder)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"{folder}: step 30  loss 0.1  goodput 66.7% of 45.0 s"
    assert [line.split() for line in lines[2:7]] == [
        ["cause", "seconds", "share", "times"],
        ["steps", "30.0", "66.7%", "30"],
        ["between", "runs", "6.0", "13.3%", "1"],
        ["steps", "made", "again", "5.0", "11.1%", "5"],
        ["boot", "4.0", "8.9%", "1"],
    ]
    curve = lines[8:20]
    assert curve[0] == "        3 |*" and curve[-1].startswith("      0.1 |")
    assert lines[20].endswith("loss, steps 1 to 30")
    assert any("step 25  fault  process 1 <on> host1 is gone" in line for line in lines)
    assert any("step 20  restart  5 steps lost" in line for line in lines)


def test_the_page_has_all_of_it_and_loads_nothing(call, folder):
    call(folder)
    page = Page((folder / "report.html").read_text())
    assert "goodput 66.7%" in page.text and "steps made again" in page.text
    assert "process 1 <on> host1 is gone" in page.text
    assert page.tags.count("polyline") == 1 and page.tags.count("circle") == 2
    assert not {"script", "link", "img", "iframe", "a"} & {*page.tags}
    assert not {"href", "src"} & {name for name, _ in page.attributes}


def test_the_picture_has_the_curve(call, folder):
    assert f"{folder / 'report.png'}\n" in call(folder)[1]
    with Image.open(folder / "report.png") as picture:
        colors = {color for _, color in picture.convert("RGB").getcolors(1 << 20)}
    assert {(31, 119, 180), (255, 127, 14)} <= colors  # matplotlib's first two: both curves


def test_a_run_of_an_earlier_version_has_a_curve(call, folder):
    (folder / "events.jsonl").unlink()
    code, out, _ = call(folder)
    assert code == 0 and "no events.jsonl, so no goodput" in out and "*" in out


def test_damaged_lines_are_left_out(call, folder):
    for name in ("events.jsonl", "metrics.jsonl", "eval.jsonl"):
        path = folder / name
        path.write_bytes(b"\0\0\0\n" + path.read_bytes() + b'{"step": 31, "lo')
    code, out, err = call(folder)
    assert code == 0 and "goodput 66.7% of 45.0 s" in out
    assert err.count("a damaged line is dropped") == 3


def test_losses_that_are_no_numbers(call, write, folder):
    write("metrics.jsonl", {"step": 1, "loss": None}, {"step": 2})
    (folder / "eval.jsonl").unlink()
    code, out, _ = call(folder)
    assert code == 0 and "no loss that is a number" in out


def test_what_is_no_run(call, tmp_path):
    code, out, err = call(tmp_path / "none")
    assert (code, out) == (2, "") and err.startswith(
        f"redco: {tmp_path / 'none'}: is no folder; give"
    )
    code, out, err = call(tmp_path)
    assert (code, out) == (2, "") and "has no step in metrics.jsonl; give the --workdir of" in err


@pytest.mark.parametrize(
    ("where", "args"), [("RUN", ["hf://a/b"]), ("--out", ["a", "--out", "s3:/b"])]
)
def test_what_is_no_path_here(call, where, args):
    code, out, err = call(*args)
    assert (code, out) == (2, "") and err.startswith(
        f"redco: {where}: {args[-1]!r} is no path here; give"
    )


def test_a_folder_that_cannot_be_written(call, folder, tmp_path):
    code, out, err = call(folder, "--out", tmp_path / "none")
    assert code == 2 and "goodput" in out
    assert "cannot be written: No such file" in err and "choose another --out" in err


def test_without_matplotlib_it_says_what_is_missing(call, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("redco_new.cli.report.find_spec", lambda name: None)
    code, out, _ = call(folder)
    assert code == 0 and out.endswith("no report.png: pip install matplotlib\n")
    assert (folder / "report.html").is_file() and not (folder / "report.png").exists()


def test_many_steps_are_drawn_as_means():
    points = [(step, float(step)) for step in range(1, 100_001)]
    assert len(thin(points, 1000)) == 1000 and thin(points, 1000)[0] == (100, 50.5)
    assert len(draw_svg(points, [])) < 30_000
    assert max(map(len, draw_text(points))) < 80


@pytest.mark.parametrize("points", [[(1, 2.0)], [(1, 2.0), (2, 2.0)], [(0, 0.0)], []])
def test_curves_of_little(points):
    assert draw_text(points) and draw_svg(points, [])
