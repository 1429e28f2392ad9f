"""What N hosts cost each: RESULTS.md, each row with its law.

    python tests/tools/hosts/table.py [PART ...]

PART: processes, data, faults, imitated, parameters. Of those that are not named the rows stay. Where an exponent is not the one that
the table has, by more than TOLERANCE, it is said, and the exit code is 1: a law has changed, whatever the machine.
"""

import math
import re
import sys
import tempfile
from pathlib import Path

import run

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
TOLERANCE = 0.35
COUNTS = (1, 2, 4, 8, 16)
INTRODUCTION = """\
# What N hosts cost each

Written by `make table NAME=hosts`. A row has what the process pays that pays most, and the law: the exponent of N by least squares of the logarithms, which is
what is compared; the numbers are of two busy cores, where CPU seconds and counts say more than time. *processes*: N of JAX on one machine, a device each,
over Gloo: a state of {size:.0f} MB split over them (`worker.py`). Bytes are those of `/proc/self/io`, the page cache's with them. A save reads
nothing back; a restore reads its share, verified as it is read. *calls*: of JAX's coordinator; *collectives*: of the devices, by which
hosts agree. *data*: the bytes of `--data` and of tokens that each of N processes reads at a first start, in the mean. *faults*: lines that all N print once one
is killed. *imitated*: CPU seconds of a real process 0 whose others are connections, until all have met, and of 10 s after it. *parameters*: `redco inspect` of a class of one's own.

| part | what | {heads} | law |
|---|---|{rules}---|
"""


def rows_of_processes():
    by_count = {}
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            by_count[count] = run.phases(count, Path(folder))
    for phase in ("start", "save", "restore", "restore, other split"):
        for what in ("read MB", "written MB", "RSS MB", "calls", "device collectives"):
            yield f"{phase}: {what}", {n: by_count[n][phase][what] for n in COUNTS}
    yield "all: CPU s", {n: by_count[n]["all"]["CPU s"] for n in COUNTS}


def rows_of_data():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.jsonl"
        file.write_text('{"text": "abc def ghi"}\n' * 10**6)
        yield "read MB", {n: run.first_start(n, file, Path(folder) / f"{n}") / 1e6 for n in COUNTS}


def rows_of_faults():
    for name, killed in (("process 0 is killed", 0), ("the last is killed", -1)):
        with tempfile.TemporaryDirectory() as folder:
            yield f"{name}: lines", {
                n: run.lines_of_fault(n, killed, folder) for n in (2, 4, 8, 16)
            }


def rows_of_imitated():
    with tempfile.TemporaryDirectory() as folder:
        both = {n: run.imitated(n, folder) for n in (64, 250, 1000)}
    for place, what in enumerate(("CPU s until all met", "CPU s of 10 s")):
        yield what, {n: pair[place] for n, pair in both.items()}


def rows_of_parameters():
    with tempfile.TemporaryDirectory() as folder:
        both = {n: run.inspection(n, folder) for n in (204, 1004, 4004)}
    for place, what in enumerate(("CPU s", "MB")):
        yield what, {n: pair[place] for n, pair in both.items()}


PARTS = {
    "processes": rows_of_processes,
    "data": rows_of_data,
    "faults": rows_of_faults,
    "imitated": rows_of_imitated,
    "parameters": rows_of_parameters,
}


def law(values):
    """Return the exponent of what costs so much at each N; None for what is nothing, or grows from nothing."""
    some = {n: value for n, value in values.items() if value >= 0.01}
    if len(some) < 2:
        return None
    xs, ys = [math.log(n) for n in some], [math.log(value) for value in some.values()]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum(
        (x - mean_x) ** 2 for x in xs
    )


def row(part, what, values):
    exponent = law(values)
    cells = "; ".join(f"{n}: {value:.3g}" for n, value in values.items())
    return f"| {part} | {what} | {cells} | {'none' if exponent is None else f'{exponent:+.2f}'} |"


def read(text):
    """Return (part, what) -> line of the table."""
    lines = re.findall(r"^\| (\w+) \| ([^|]+) \| .* \|$", text, re.M)
    whole = [line for line in text.splitlines() if re.match(r"\| \w+ \| [^|]+ \| \d", line)]
    return dict(zip((pair for pair in lines if pair[0] in PARTS), whole, strict=True))


def main():
    parts = sys.argv[1:] or [*PARTS]
    before = read(RESULTS.read_text()) if RESULTS.exists() else {}
    now, changed = dict(before), []
    for part in parts:
        now = {pair: line for pair, line in now.items() if pair[0] != part}
        for what, values in PARTS[part]():
            now[part, what] = line = row(part, what, values)
            print(line, flush=True)
            laws = [
                text.rstrip(" |").rpartition("| ")[2]
                for text in (before.get((part, what)), line)
                if text
            ]
            if len(laws) == 2 and (("none" in laws) != (laws[0] == laws[1] == "none")):
                changed.append((part, what, *laws))
            elif (
                len(laws) == 2
                and "none" not in laws
                and abs(float(laws[0]) - float(laws[1])) > TOLERANCE
            ):
                changed.append((part, what, *laws))
    text = INTRODUCTION.format(size=67, heads="N: cost", rules="---|")
    ordered = sorted(now, key=lambda pair: [*PARTS].index(pair[0]))
    RESULTS.write_text(text + "\n".join(now[pair] for pair in ordered) + "\n")
    for part, what, old, new in changed:
        print(f"{part}, {what}: the law was {old} and is {new}", file=sys.stderr)
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
