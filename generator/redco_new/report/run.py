"""What the files of a work folder say of how a run went."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redco_new.errors import RedcoError
from redco_new.render.execute import use_runtime
from redco_new.report.curve import Points, draw_svg, draw_text

if TYPE_CHECKING:
    from redco_runtime.monitor.events import Sums

NOTABLE = ("start", "restart", "signal", "fault", "late")  # events

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
        goodput = self.sums.headline if self.sums.total else "no events.jsonl, so no goodput"
        return "  ".join([f"step {self.last['step']}", *shown, goodput])

    @property
    def causes(self) -> str:
        """What the time went into, as a table."""
        sums, lines = self.sums, [f"{'cause':18}{'seconds':>10}{'share':>9}{'times':>8}"]
        for cause in sums.causes:
            seconds = sums.seconds[cause]
            lines.append(
                f"{cause:18}{seconds:>10.1f}{seconds / sums.total:>9.1%}{sums.times[cause]:>8}"
            )
        return "\n".join(lines)


def read_report(folder: Path) -> Report:
    """Return what the files of a work folder say. Raises RedcoError where no step was logged."""
    use_runtime()
    from redco_runtime.monitor.events import add_up_events  # as a run's own end counts it
    from redco_runtime.base.files import read_lines

    try:
        events = read_lines(folder / "events.jsonl", "time", "seconds")
        metrics, evaluations = (
            read_lines(folder / f"{name}.jsonl") for name in ("metrics", "eval")
        )
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise RedcoError(str(error.filename), what, "mend that and run it again") from None
    if not metrics:
        what = "has no step in metrics.jsonl" if folder.is_dir() else "is no folder"
        raise RedcoError(str(folder), what, "give the --workdir of a run that has logged a step")
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


def _line(event: dict[str, Any]) -> str:
    when = time.strftime("%F %T", time.localtime(event["time"]))
    what = f"{when}  step {event['step']}  {event['event']}"
    lost = f"  {event['lost_steps']} steps lost" if event.get("lost_steps") else ""
    return f"{what}{lost}  {event.get('text', '')}".rstrip()


def _points(records: Sequence[dict[str, Any]]) -> Points:
    return [(r["step"], r["loss"]) for r in records if isinstance(r.get("loss"), int | float)]
