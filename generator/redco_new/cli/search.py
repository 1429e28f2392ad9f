"""`redco fit --search`: the fastest mesh that fits, what was tried, and what the compiler says of the best."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from redco_new.cli import options
from redco_new.cli.change import change
from redco_new.cli.progress import status
from redco_new.inspect import page
from redco_new.request import Request

if TYPE_CHECKING:
    from redco_fit.reading import Reading
    from redco_fit.search.best import Search
    from redco_fit.search.candidates import Trial

COLUMNS = ("mesh", "batch", "micro-batches", "step ms", "peak GB", "MFU", "why not")


def run_search(
    title: str,
    root: Path | None,
    request: Request,
    hardware: str,
    batch: int | None,
    seq: int | None,
    *,
    as_json: bool,
    apply: bool,
    html: Path | None,
) -> int:
    """Run a search, compile the best, print what came of it; write it into redco.toml of `root` if `apply`.

    html: the page of what is compiled. Returns the exit code: 1 where nothing fits.
    Raises RedcoError for a page of a machine whose compiler is not installed.
    """
    from redco_fit.compilers import environment
    from redco_fit.page import render_reading
    from redco_fit.search.choice import assumptions, search_for
    from redco_fit.search.compile_best import compile_best, to_dict
    from redco_fit.target import parse_target

    if html:
        environment(parse_target(hardware).hardware.platform)
    with status() as progress:
        result = search_for(request, hardware, batch, seq, progress)
        best, reading, note = compile_best(request, result, seq, progress)
    if best is not None:
        note = "; ".join(filter(None, (assumptions(result), note)))
    if as_json:
        print(json.dumps(to_dict(title, result, best, reading, note), indent=2))
    else:
        print_search(title, result, best, reading, note)
    if best is None:
        return 1
    if html and reading:
        page.write_text(html, render_reading(title, reading))
        if not as_json:
            print(f"\nWrote {html}: open it in a browser.")
    if apply:
        assert root is not None, "what is applied is applied to a project"
        return change(root, dict.fromkeys(options.REQUEST) | best.flags, None)
    return 0


def print_search(
    title: str,
    result: "Search",
    best: "Trial | None",
    reading: "Reading | None",
    note: str,
) -> None:
    """Print the outcome, and a row for each that was tried."""
    from redco_fit.report import make_console

    from redco_new.inspect.text import make_grid

    console = make_console()
    for line in _lines(title, result, best, reading, note):
        console.print(line, soft_wrap=True)
    table = make_grid(*COLUMNS)
    for one in result.trials:
        peak = f"{one.peak / 1e9:.1f}" if one.peak else ""
        milliseconds, mfu = f"{1e3 * one.seconds:.0f}", f"{one.mfu:.2f}"
        table.add_row(
            one.name, str(one.batch), str(one.micro_batches), milliseconds, peak, mfu, one.reason
        )
    console.print()
    console.print(table)


def _lines(
    title: str,
    result: "Search",
    best: "Trial | None",
    reading: "Reading | None",
    note: str,
) -> Iterator[str]:
    """Yield what is to be said first."""
    from redco_fit.search.choice import does_not_fit

    name = result.target.name
    if best is None:
        yield f"{title} on {name}: {does_not_fit(result)}"
        if note:
            yield f"note: {note}"
        if (host := result.hosted) is not None:
            more = f"{host.name}, {host.batch} examples{_parts(host)}, at most {host.peak / 1e9:.1f} GB a device"
            yield f"with --optimizer-memory host: {more}"
        return
    saved = f", saving {', '.join(best.saved)}" if best.saved else ""
    yield (
        f"{title} on {name}: {best.name}, {best.batch} examples{_parts(best)}{saved}:"
        f" about {1e3 * best.seconds:.0f} ms a step, an estimate (MFU {best.mfu:.2f}), at most {best.peak / 1e9:.1f} of"
        f" {result.target.hardware.usable / 1e9:.1f} GB a device"
    )
    if reading is not None:
        yield (
            f"compiled: {reading.peak_bytes / 1e9:.1f} GB a device, {1e3 * reading.step_seconds:.0f} ms by its kernels,"
            f" in {reading.compile_seconds:.0f} s"
        )
    if note:
        yield f"note: {note}"
    few, few_target = result.fewest, result.fewest_target
    if few is not None and few_target is not None and few_target.devices < result.target.devices:
        yield f"fewest devices: {few_target.name}, {few.name}{_parts(few)}"
    if result.coded is not None:
        milliseconds, products = 1e3 * result.coded.seconds, result.target.products
        yield f"layers in 8 bits: about {milliseconds:.0f} ms a step with --products {products}"
    yield f"train it with {best.settings}"
    yield f"tried in {result.seconds:.0f} s (what lost before its memory was of interest has none):"


def _parts(trial: "Trial") -> str:
    """Return into how many micro-batches a batch goes; nothing where it is one."""
    return f" in {trial.micro_batches} micro-batches" if trial.micro_batches > 1 else ""
