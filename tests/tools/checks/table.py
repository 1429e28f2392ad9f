"""Edits of projects, bad ones and good ones, and what `redco check` says of each; writes docs/results/checks.md.

    make table NAME=checks                       # those that are not recorded
    make table NAME=checks ROWS="bad again"      # all bad ones; or good ones
    make table NAME=checks ROWS="seed gather"    # those whose name has one of these words

bad.toml and good.toml have the edits, bad.jsonl and good.jsonl what came of each; what is there is not run again, so that
one may stop and go on. An edit stands in a copy of a project that was checked before it, so that there are facts.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PAGE = ROOT / "docs" / "results" / "checks.md"
BIN = Path(sys.executable).parent
PROJECTS = {
    "lm": ("--model", "gpt2", "--shards", "2"),
    "sft": ("--model", "llama", "--recipe", "sft", "--shards", "2"),
    "own": (
        "--model",
        "nets.py:Net",
        "--recipe",
        "classify",
        "--config",
        "net.toml",
        "--shards",
        "2",
    ),
}
CLASS = '''\
"""A class as users write them."""

from flax import linen as nn


class Net(nn.Module):
    """A classifier: logits (B, 10)."""

    width: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.relu(nn.Dense(self.width)(x)))
'''
CONFIG = '[model]\nwidth = 32\n[inputs]\nx = {shape = ["B", 12]}\n'
KINDS = ["bad", "good"]
Edit = Mapping[str, Any]


def edits(kind: str) -> list[Edit]:
    """Return the edits of a kind, bad or good."""
    return [
        {"kind": kind, **one}
        for one in tomllib.loads((HERE / f"{kind}.toml").read_text(encoding="utf-8"))["edit"]
    ]


def apply(edit: Edit, project: Path) -> None:
    """Make an edit in a project, whose package is its name. Raises ValueError where its text is not there once."""
    package = project.name
    path = project / edit["file"].replace("PKG", package)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if "was" not in edit:
        text += edit["now"].replace("PKG", package)
    for was, now in [(edit["was"], edit["now"]), *edit.get("also", [])] if "was" in edit else []:
        was, now = was.replace("PKG", package), now.replace("PKG", package)
        if text.count(was) != 1:
            raise ValueError(f"{edit['name']}: {was!r} is {text.count(was)} times in {path}")
        text = text.replace(was, now)
    path.write_text(text, encoding="utf-8")


def create(folder: Path, name: str) -> Path:
    """Return a new project."""
    (folder / "nets.py").write_text(CLASS, encoding="utf-8")
    (folder / "net.toml").write_text(CONFIG, encoding="utf-8")
    command = [BIN / "redco-new", name, *PROJECTS[name]]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / name


def check(project: Path) -> dict[str, Any]:
    """Return what `redco check --json` says, and the seconds of the CPU that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [BIN / "redco", "check", "--json"], cwd=project, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(done.stdout), "code": done.returncode, "cpu": round(cpu, 1)}


def judge(edit: Edit, said: Mapping[str, Any]) -> bool:
    """Tell whether a check says of an edit what it must: which line broke, and where; or nothing."""
    if edit["kind"] == "good":
        return said["code"] == 0
    return said["code"] == 1 and any(
        one["check"] == edit["check"] and edit["where"] in one["where"] for one in said["findings"]
    )


def run(edit: Edit, bases: dict[str, Path], folder: Path) -> dict[str, Any]:
    """Return the record of an edit, in a copy of its project."""
    name = edit["project"]
    if name not in bases:
        (folder / "bases").mkdir(exist_ok=True)
        bases[name] = create(folder / "bases", name)
        first = check(bases[name])
        print(f"{name}: the first check, {first['cpu']} s of the CPU", flush=True)
        if first["code"]:
            raise SystemExit(json.dumps(first, indent=2))
    copy = folder / "edited" / name
    shutil.rmtree(copy.parent, ignore_errors=True)
    # The class of own lies beside it.
    shutil.copytree(bases[name].parent, copy.parent)
    apply(edit, copy)
    said = check(copy)
    kept = {key: edit[key] for key in ("kind", "name", "project", "file")}
    return kept | {"right": judge(edit, said), "cpu": said["cpu"], "findings": said["findings"]}


def read(kind: str) -> list[dict[str, Any]]:
    """Return what is recorded of a kind, of edits that are there."""
    names, path = {edit["name"] for edit in edits(kind)}, HERE / f"{kind}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [one for one in map(json.loads, lines) if one["name"] in names]


def record(one: Mapping[str, Any]) -> None:
    """Keep what came of an edit, and print it."""
    rest = [other for other in read(one["kind"]) if other["name"] != one["name"]]
    text = "".join(json.dumps(other) + "\n" for other in [*rest, one])
    (HERE / f"{one['kind']}.jsonl").write_text(text, encoding="utf-8")
    print("right" if one["right"] else "NOT RIGHT", one["cpu"], one["name"], flush=True)
    for finding in one["findings"]:
        print(f"    {finding['check']}: {finding['where']}: {finding['what']}", flush=True)


def chosen(words: list[str]) -> list[Edit]:
    """Return the edits that are asked for."""
    kinds = [word for word in words if word in KINDS] or KINDS
    names = [word for word in words if word not in (*KINDS, "again")]
    had = {one["name"] for kind in kinds for one in read(kind)}
    every = [edit for kind in kinds for edit in edits(kind)]
    if names:
        return [edit for edit in every if any(word in edit["name"] for word in names)]
    return every if "again" in words else [edit for edit in every if edit["name"] not in had]


def main(words: list[str]) -> None:
    """Run what is asked for, and write the page."""
    bases: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        for edit in chosen(words):
            record(run(edit, bases, Path(folder)))
    PAGE.write_text(page([one for kind in KINDS for one in read(kind)]), encoding="utf-8")


def page(records: list[dict[str, Any]]) -> str:
    """Return the page of all that is recorded."""
    order = {edit["name"]: i for i, edit in enumerate(x for kind in KINDS for x in edits(kind))}
    records = sorted(records, key=lambda one: order[one["name"]])
    bad, good = ([x for x in records if x["kind"] == kind] for kind in KINDS)
    right = [sum(one["right"] for one in some) for some in (bad, good)]
    cpu = sorted(one["cpu"] for one in records)
    lines = [
        "# What `redco check` says of edits",
        "",
        "Written by `make table NAME=checks`: each edit is made in a copy of a project that was checked before it. A bad one is",
        "right where the line of the check that it breaks names the place that was edited; a good one where it ends with 0.",
        "",
        f"Bad edits: {right[0]} of {len(bad)} that were run are reported so, of {len(edits('bad'))} that there are. Good ones: {right[1]} of {len(good)}",
        f"pass, of {len(edits('good'))}. A check took {cpu[len(cpu) // 2]:.0f} s of the CPU, {cpu[-1]:.0f} at most, over two cores.",
        "",
        "| bad edit | reported by | where | as it should be |",
        "|---|---|---|---|",
    ]
    for one in bad:
        names = ", ".join(dict.fromkeys(x["check"] for x in one["findings"]))
        edit = next(x for x in edits("bad") if x["name"] == one["name"])
        own = [x["where"] for x in one["findings"] if x["check"] == edit["check"]]
        where = f"`{own[0]}`" if own else ""
        lines.append(f"| {one['name']} | {names} | {where} | {'yes' if one['right'] else 'no'} |")
    lines += ["", "| good edit | file | passes |", "|---|---|---|"]
    lines += [
        f"| {one['name']} | {one['file'].replace('PKG/', '')} | {'yes' if one['right'] else 'no'} |"
        for one in good
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":

    main(sys.argv[1:])
