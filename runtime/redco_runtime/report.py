"""Report how a run went: its goodput, what took the rest of the time, and the curve of its loss.

python -m redco_runtime.report runs/a

Goodput is the share of the time since the first start that went into steps which the run has. The work
folder is read, of a run that goes on too; no accelerator is touched. Prints it, and writes report.html,
one page for any browser that loads nothing else, and report.png.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from redco_runtime.curve import Points, draw_png, draw_svg, draw_text
from redco_runtime.errors import UserError, writing
from redco_runtime.goodput import Sums, add_up_events
from redco_runtime.lines import read_lines
from redco_runtime.output import show

NOTABLE = ("start", "restart", "signal", "fault")  # events

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }}
pre {{ white-space: pre-wrap; }}
svg {{ width: 100%; font-size: 12px; fill: currentColor; }}
polyline {{ fill: none; stroke: #2a78d6; stroke-width: 1.5; }}
circle {{ fill: #d6652a; }}
.grid {{ stroke: #8884; }}
.left {{ text-anchor: end; }}
.below {{ text-anchor: middle; }}
</style>
<h1>{title}</h1>
<p>{headline}</p>
{curve}
<p>Line: training. Dots: held-out examples.</p>
<pre>
{causes}

{notable}
</pre>
</html>
"""


@dataclass(frozen=True)
class Report:
    """What there is to say of a run."""

    folder: Path
    sums: Sums
    notable: list[str]  # a line for each event at which it started, or that ended it
    training: Points
    held_out: Points
    last: dict[str, Any]  # the last step that was logged

    @property
    def headline(self) -> str:
        """What matters most, in a line."""
        names = ("loss", "step_seconds", "mfu", "memory_gib")
        shown = [f"{n} {self.last[n]:.6g}" for n in names if isinstance(self.last.get(n), float)]
        goodput = f"goodput {self.sums.goodput:.1%} of {self.sums.total:.1f} s"
        goodput = goodput if self.sums.total else "no events.jsonl, so no goodput"
        return "  ".join([f"step {self.last['step']}", *shown, goodput])

    @property
    def causes(self) -> str:
        """What the time went into, as a table."""
        table = [("cause", "seconds", "share", "times"), *self.sums.rows()]
        return "\n".join(f"{row[0]:18}{row[1]:>10}{row[2]:>9}{row[3]:>8}" for row in table)


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="the work folder of the run")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="to write to (default: RUN)")
    args = parser.parse_args()
    try:
        report = read_report(args.run)
        show(print_text(report))
        write_report(report, args.out or args.run)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.code) from None


def read_report(folder: Path) -> Report:
    """Return what the files of a work folder say. Raises UserError where no step was logged."""
    try:
        events = read_lines(folder / "events.jsonl", "time", "seconds")
        metrics, evaluations = (
            read_lines(folder / f"{name}.jsonl") for name in ("metrics", "eval")
        )
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read: {error.strerror}") from None
    if not metrics:
        what = "has no step in metrics.jsonl" if folder.is_dir() else "is no folder"
        raise UserError(f"{folder} {what}: give the --workdir of a run that has logged a step")
    notable = [_line(event) for event in events if event.get("event") in NOTABLE]
    training, held_out = _points(metrics), _points(evaluations)
    return Report(folder, add_up_events(events), notable, training, held_out, metrics[-1])


def print_text(report: Report) -> str:
    """Return the report for a terminal."""
    head = [f"{report.folder}: {report.headline}", "", report.causes, ""]
    return "\n".join([*head, *draw_text(report.training), "", *report.notable])


def print_page(report: Report) -> str:
    """Return the report as one page of HTML."""
    return PAGE.format(
        title=escape(f"Run {report.folder.absolute().name}"),
        headline=escape(report.headline),
        curve=draw_svg(report.training, report.held_out),
        causes=escape(report.causes),
        notable=escape("\n".join(report.notable)),
    )


def write_report(report: Report, folder: Path) -> None:
    """Write report.html and report.png, and say where. Raises UserError."""
    page, picture = folder / "report.html", folder / "report.png"
    with writing(page, option="--out"):
        page.write_text(print_page(report), encoding="utf-8")
        show(f"\n{page}")
        draw_png(report.training, report.held_out, picture)
        show(str(picture))


def _line(event: dict[str, Any]) -> str:
    when = time.strftime("%F %T", time.localtime(event["time"]))
    what = f"{when}  step {event['step']}  {event['event']}"
    lost = f"  {event['lost_steps']} steps lost" if event.get("lost_steps") else ""
    return f"{what}{lost}  {event.get('text', '')}".rstrip()


def _points(records: Sequence[dict[str, Any]]) -> Points:
    return [(r["step"], r["loss"]) for r in records if isinstance(r.get("loss"), int | float)]


if __name__ == "__main__":
    main()
