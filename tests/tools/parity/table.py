"""The table of parity: forty steps of each recipe beside the peer that its users come from.

python tests/tools/parity/table.py [CASE ...]   trains all, or those named, whose rows of RESULTS.md it rewrites

Both sides begin with the same weights, tokenizer and rows, of which each step has all; each tokenizes, masks, packs and
pads them itself. Ours is a project and its train.py; the peers run in the environment .parity.
"""

import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import ours
from cases import CASES, Case

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WORK = ROOT / ".benchmarks/parity"
PEERS = ROOT / ".parity/bin/python"
RESULTS, RECORDED = HERE / "RESULTS.md", HERE / "recorded.json"
WITHIN = 1e-4
HEAD = """# Forty steps of each recipe beside its peer

`make table NAME=parity` trains a small model for each recipe that has a peer, in float32 on a CPU: from the same random weights, on the same
rows, all of them in each step, which each side tokenizes, masks, packs and pads itself. AdamW with betas 0.9 and 0.95, decay 0.1, clipping at 1.0, no
dropout, no warm-up, a schedule to 0. Ours is the project's `train`, as a user runs it. Figures are the largest relative difference of any step;
within {within:g} they are the same: {same} of {all} are.

{versions}.

| recipe | model | peer | loss | gradient's norm | loss at the first step, and the last | | |
|---|---|---|---|---|---|---|---|
"""


def run_peers(task: str, names: list[str]) -> None:
    """Let the peers prepare or train cases."""
    subprocess.run([PEERS, HERE / "peers.py", task, WORK, *names], check=True)


Found = dict[
    str, list[list[float]]
]  # "ours" and "theirs": of each step its loss, the norm of its gradient


def compare(case: Case) -> Found:
    """Return the figures of a case."""
    folder = ours.folder_of(case, WORK)
    theirs = json.loads((folder / "theirs.json").read_text())
    return {"ours": ours.figures(folder), "theirs": theirs}


def apart(case: Case, found: Found) -> tuple[float, float]:
    """Return the largest relative difference of any step, of the loss and of the norm."""
    pairs = list(zip(found["ours"], found["theirs"], strict=True))
    loss = max(abs(a[0] - b[0]) / max(abs(b[0]), case.scale) for a, b in pairs)
    return loss, max(abs(a[1] / b[1] - 1) for a, b in pairs)


def line(case: Case, found: Found) -> str:
    """Return a row of the table."""
    loss, norm = apart(case, found)
    verdict = "the same" if max(loss, norm) < WITHIN else "differs"
    name = case.architecture.split("For")[0].removesuffix("LMHeadModel")
    ends = f"{found['ours'][0][0]:.4f}, {found['ours'][-1][0]:.4f}"
    cells = (case.name, name, case.peer, f"{loss:.1e}", f"{norm:.1e}", ends, verdict, case.remark)
    return f"| {' | '.join(cells)} |\n"


def main(names: list[str]) -> None:
    cases = [case for case in CASES if not names or case.name in names]
    for case in cases:
        shutil.rmtree(ours.folder_of(case, WORK), ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    run_peers("prepare", [case.name for case in cases])
    for case in cases:
        folder = ours.folder_of(case, WORK)
        ours.create(case, folder)
        ours.train(case, folder)
        print(f"{case.name}: ours is trained", flush=True)
    run_peers("train", [case.name for case in cases])
    found = {case.name: compare(case) for case in cases}
    before = RESULTS.read_text().splitlines(keepends=True)
    lines = [
        (
            line(case, found[case.name])
            if case in cases
            else next(row for row in before if row.startswith(f"| {case.name} |"))
        )
        for case in CASES
    ]
    same = sum("| the same |" in one for one in lines)
    versions = json.loads((WORK / "versions.json").read_text())
    versions |= {name: version(name) for name in ("jax", "flax", "optax")}
    said = ", ".join(f"{name} {number}" for name, number in versions.items())
    head = HEAD.format(within=WITHIN, same=same, all=len(CASES), versions=said)
    RESULTS.write_text(head + "".join(lines))
    recorded = json.loads(RECORDED.read_text()) | {
        name: [[float(f"{x:.8g}") for x in one] for one in both["theirs"]]
        for name, both in found.items()
    }
    recorded = {case.name: recorded[case.name] for case in CASES}
    text = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(steps)}" for name, steps in recorded.items()
    )
    RECORDED.write_text("{" + text + "}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
