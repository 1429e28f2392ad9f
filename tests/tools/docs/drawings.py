"""Open the pages that draw something in a headless Chromium, and check what it shows: `make docs`.

CHROMIUM names it where it is not on the path; without one this says so, and checks nothing.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fit.readings import FITS
from redco_fit.page import render_reading
from redco_new.cli import redco_app, run

ROOT = Path(__file__).parents[3]
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTH = 1200  # pixels of the window
# What a page shows, in the place of the page: its text, and the place and size of what is drawn.
MEASURE = """<script>
const boxes = (selector) => [...document.querySelectorAll(selector)].map((one) => {
  const box = one.getBoundingClientRect();
  return {x: box.x, y: box.y, width: box.width, height: box.height, of: one.getAttribute("class")};
});
const shown = {
  text: document.body.innerText,
  wide: document.documentElement.scrollWidth,
  rects: boxes("svg rect"), lines: boxes("svg polyline"), dots: boxes("svg circle"),
  svgs: boxes("svg"), bars: boxes(".bar"), parts: boxes(".bar > div"),
};
document.body.innerHTML = "<pre id=shown></pre>";
document.getElementById("shown").textContent = JSON.stringify(shown);
</script>"""


def look(chromium: str, page: Path) -> dict[str, Any]:
    """Return what a page shows. Raises CalledProcessError, ValueError."""
    text = page.read_text()
    copy = page.with_name(f"measured-{page.name}")
    copy.write_text(text + MEASURE)
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={WIDTH},900"]
    done = subprocess.run(
        [chromium, *options, "--dump-dom", copy.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (shown,) = re.findall(r'<pre id="shown">(.*?)</pre>', done.stdout, re.DOTALL)
    return json.loads(html.unescape(shown))


def inside(box: dict[str, float], around: dict[str, float]) -> bool:
    """Return whether a box has a size, and lies in another one."""
    there = box["width"] > 0 and box["height"] > 0
    right = around["x"] + around["width"] + 1
    return there and around["x"] - 1 <= box["x"] and box["x"] + box["width"] <= right


def check_plan(chromium: str, folder: Path) -> None:
    """Check the page of `redco inspect`: each parameter a drawing, cut as its spec says, the part of a device marked."""
    page = folder / "plan.html"
    assert run(redco_app, "redco", ["inspect", "gpt-j", "--shards", "4", "--html", str(page)]) == 0
    shown = look(chromium, page)
    assert shown["wide"] <= WIDTH, "wider than the window"
    assert "layers/attn/q/kernel" in shown["text"] and "columns: makes heads" in shown["text"]
    faces, mine, stripes = (
        [box for box in shown["rects"] if box["of"].split()[0] == kind]
        for kind in ("face", "mine", "stripe")
    )
    assert len(faces) == len(mine) > 10, "a drawing for each parameter"
    first = faces[0]
    cut = [
        x
        for x in stripes
        if inside(x, first)
        and abs(x["x"] - first["x"]) < 1
        and x["y"] < first["y"] + first["height"]
    ]
    assert len(cut) == 4, "the embedding is cut into four"
    assert abs(mine[0]["height"] - first["height"] / 4) < 1, "a device has one of them"


def check_fit(chromium: str, folder: Path) -> None:
    """Check the page of `redco fit`: bars of memory and time, whose parts are as long as what they are of."""
    page = folder / "fit.html"
    page.write_text(render_reading("net", FITS))
    shown = look(chromium, page)
    assert shown["wide"] <= WIDTH and "fits: 1.4 GB of 63.7 GB" in shown["text"]
    memory = shown["bars"][0]
    parts = [part for part in shown["parts"] if part["y"] < memory["y"] + memory["height"]]
    assert parts and all(inside(part, memory) for part in parts)
    widths = [part["width"] for part in parts][: len(FITS.memory)]
    for width, bytes_ in zip(widths, FITS.memory.values(), strict=True):
        assert abs(width / widths[0] - bytes_ / FITS.memory["parameters"]) < 0.05, widths


def check_report(chromium: str, folder: Path) -> None:
    """Check the page of `redco report`: a curve that falls, and its held-out losses."""
    steps = [{"step": n, "loss": 3 / n} for n in range(1, 31)]
    lines = {
        "metrics.jsonl": steps,
        "eval.jsonl": [{"step": 0, "loss": 4.0}, {"step": 30, "loss": 0.2}],
        "events.jsonl": [
            {"time": 0, "event": "start", "step": 0, "seconds": 0},
            {"time": 0, "event": "boot", "step": 0, "seconds": 4},
            {"time": 4, "event": "steps", "step": 30, "steps": 30, "seconds": 30},
        ],
    }
    for name, rows in lines.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(redco_app, "redco", ["report", str(folder)]) == 0
    shown = look(chromium, folder / "report.html")
    assert shown["wide"] <= WIDTH and "goodput" in shown["text"].lower()
    (curve,), (plot, *_) = shown["lines"], shown["svgs"]
    assert inside(curve, plot) and curve["width"] > plot["width"] / 2
    first, last = shown["dots"]
    assert inside(first, plot) and first["x"] < last["x"] and first["y"] < last["y"], "it falls"


def check_site(chromium: str, folder: Path) -> None:
    """Check a page of the site: its title, its table as a table, no link to another host."""
    page = ROOT / "build/site/how-to/mesh.html"
    hosts = {*re.findall(r'(?:src|href)="https?://([^/"]+)', page.read_text())}
    assert hosts <= {"squidfunk.github.io"}, hosts  # the theme's own, at the foot
    copy = folder / "site"
    shutil.copytree(ROOT / "build/site", copy)
    shown = look(chromium, copy / "how-to/mesh.html")
    assert "Choose a mesh" in shown["text"] and "| --- |" not in shown["text"]
    assert shown["wide"] <= WIDTH


def main() -> int:
    paths = (shutil.which(name) for name in (os.environ.get("CHROMIUM", ""), *NAMES) if name)
    chromium = next(filter(None, paths), None)
    if chromium is None:
        print(f"no {' or '.join(NAMES)} here: what pages draw was not looked at")
        return 0
    with tempfile.TemporaryDirectory() as name:
        for check in (check_plan, check_fit, check_report, check_site):
            with contextlib.redirect_stdout(io.StringIO()):
                check(chromium, Path(name))
            print(f"{check.__name__}: as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
