"""`redco check`: measure a project, compare with what it was, and keep what is right or accepted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from redco_new.check import symbols
from redco_new.check.children import Children, Lines
from redco_new.check.facts import Facts, differences, read_facts, versions, write_facts
from redco_new.check.table import ACCEPTABLE, CHECKS, WRONG, Check
from redco_new.errors import RedcoError
from redco_new.project.folders import TODO, missing_folders
from redco_new.project.sandbox import temporary_folder
from redco_new.project.state import ProjectState, read_project_state
from redco_new.request.names import package_name
from redco_new.update.report import drift_of
from redco_new.update.run import preview_update

# Tests that need not run where they are as redco wrote them: what two claim is measured here, and one is of files of the
# package that are as redco wrote them too.
MEASURED = ("tests/test_sharding.py", "tests/test_resume.py")
BOOT, BOOTED = "tests/test_boot.py", ("boot.py", "runtime/")
NO_TESTS, FAILED = 5, 1  # exit codes of pytest
LONGEST = 300  # characters of what a test says
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Finding:
    """One line of a report.

    check: its name.  kind: wrong, or change.  where: it broke.  what: is wrong, or another than it was.
    todo: what to do about it.
    """

    check: str
    kind: str
    where: str
    what: str
    todo: str

    @classmethod
    def of(cls, check: Check, where: str, what: str, todo: str = "") -> Finding:
        """Return that of a check, whose advice it has where there is no other."""
        return cls(check.name, check.kind, where, what, todo or check.todo)


@dataclass(frozen=True)
class Verdict:
    """What came of a check.

    says: check -> what it saw, of those that were measured and have no findings.  accepted: what was recorded as meant.
    recorded: whether there were no facts before.  edited: what was edited of what redco wrote, or since.
    """

    name: str
    findings: list[Finding]
    says: Mapping[str, str]
    accepted: Collection[str]
    recorded: bool
    edited: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        """Whether something is that no one can mean."""
        return any(one.kind == WRONG for one in self.findings)


def check_project(
    root: Path, accept: Collection[str] = (), progress: Progress = lambda step: None
) -> Verdict:
    """Measure the project `root`, and compare it with its facts, which are then those that hold.

    accept: names of ACCEPTABLE whose changes are meant.  Nothing is kept of a project in which something is wrong.
    Raises RedcoError for a name that is none, and for a project or facts that are damaged.
    """
    for name in accept:
        if name not in ACCEPTABLE:
            why = "is always wrong, and cannot be accepted" if name in CHECKS else "is no check"
            raise RedcoError("--accept", f"{name} {why}", f"choose of {', '.join(ACCEPTABLE)}")
    began, state, before = time.monotonic(), read_project_state(root), read_facts(root)
    name = state.manifest.request["name"]
    with temporary_folder() as folder, Children(root.resolve(), folder) as children:
        lines, findings = _measure(state, package_name(name), children, folder, progress)
    values = {x["fact"]: x["value"] for x in lines if "fact" in x}
    now = symbols.edited_files(state, values.pop("files", []))
    then = {} if before is None else before.symbols
    changed = symbols.changed_since(state, then, now)
    lines += _other_process(values, package_name(name))
    findings += [_finding(x, state, changed) for x in lines if "fault" in x]
    findings = list(dict.fromkeys(findings))
    said = versions()
    changes = [] if before is None else _changes(before, values, changed, said)
    left = [one for one in changes if one.check not in accept]
    if not findings:
        _keep(root, before, Facts(values, now, said), {one.check for one in left})
    every = sorted([*findings, *left], key=lambda one: [*CHECKS].index(one.check))
    return Verdict(
        name,
        every,
        _says(values, lines, {one.check for one in every}),
        sorted({one.check for one in changes} & {*accept}),
        before is None,
        changed,
        time.monotonic() - began,
    )


def _measure(
    state: ProjectState, package: str, children: Children, folder: Path, progress: Progress
) -> tuple[Lines, list[Finding]]:
    """Return what two processes of the project tell, and the findings of an update and of the tests."""
    doing: dict[str, str] = {}

    def say(part: str) -> Progress:
        def show(text: str) -> None:
            doing[part] = text
            progress("; ".join(doing.values()))

        return show

    with ThreadPoolExecutor(2) as pool:
        try:
            parts: list[Future[Any]] = [
                pool.submit(children.measure, package, part, say(part)) for part in ("run", "step")
            ]
            tests = pool.submit(_test, state, children, folder, say("tests"))
            findings = [Finding.of(CHECKS["update"], *x, TODO) for x in missing_folders(state)]
            findings += _update(state.root)
            lines = [line for part in parts for line in part.result()]
            return lines, findings + tests.result()
        except BaseException:
            children.__exit__()
            raise


def _update(root: Path) -> list[Finding]:
    """Return what is to be done before files follow from the model and redco.toml."""
    check = CHECKS["update"]
    try:
        drift = drift_of(preview_update(root, {}))
    except RedcoError as error:  # a model that it cannot read is no reason to measure nothing
        return [Finding.of(check, error.where, error.what, error.todo)]
    stale = [
        Finding.of(check, path, f"does not follow: {', '.join(what)}")
        for path, what in drift["stale"].items()
    ]
    others = [("conflicts", "is changed by you and by redco"), ("pending", "is to be settled")]
    return stale + [Finding.of(check, x, what) for kind, what in others for x in drift[kind]]


def _test(
    state: ProjectState, children: Children, folder: Path, progress: Progress
) -> list[Finding]:
    """Return the tests of the project that fail."""
    progress("running the project's tests")
    same = [path for path in MEASURED if state.ours(path) == state.base(path)]
    package = package_name(state.manifest.request["name"])
    booted = [
        x for x in state.records.base if x.startswith(tuple(f"{package}/{y}" for y in BOOTED))
    ]
    if all(state.ours(path) == state.base(path) for path in (BOOT, *booted)):
        same.append(BOOT)
    report, check = folder / "tests.xml", CHECKS["tests"]
    code, words = children.test([f"--ignore={path}" for path in same], report)
    if code in (0, NO_TESTS):
        return []
    findings = []
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            for fault in (*case.iter("failure"), *case.iter("error")):
                where = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
                what = " ".join((fault.get("message") or fault.text or "fails").split())
                findings.append(Finding.of(check, where, what[:LONGEST]))
    if not findings:
        missing = "No module named pytest" in words
        what, todo = f"pytest ended with {code}: {words}", "pip install pytest" if missing else ""
        findings = [Finding.of(check, "tests", what, todo)]
    return findings


def _other_process(values: dict[str, Any], package: str) -> Lines:
    """Return a fault where batches of one process are not those of the other; drop what they were."""
    again, order = values.pop("order again", None), values.get("order")
    if again is None or order is None or again == order:
        return []
    what = "batches are others in another process"
    return [{"fault": "seeded", "where": f"{package}/pipeline.py", "what": what}]


def _finding(line: Mapping[str, Any], state: ProjectState, changed: list[str]) -> Finding:
    check = CHECKS[line["fault"]]
    likely = symbols.suspects(changed, check.about, line["where"])
    # A line of a traceback is where it is; of what was compared, what was edited is where to look.
    precise = ":" in line["where"].replace("::", "") or not likely
    what = line["what"] + (f" (edited: {likely})" if precise and likely else "")
    return Finding.of(check, line["where"] if precise else likely, what)


def _changes(
    before: Facts, values: Mapping[str, Any], changed: list[str], said: Mapping[str, str]
) -> list[Finding]:
    """Return the facts that are others than they were."""
    others = [f"{k} {said[k]}, was {v}" for k, v in before.versions.items() if said.get(k, v) != v]
    findings = []
    for name in ACCEPTABLE:
        if name not in before.values or name not in values:
            continue
        words = differences(name, before.values[name], values[name])
        if not words:
            continue
        check, at = CHECKS[name], _place(name, before, values)
        likely = symbols.suspects(changed, check.about, at)
        where = ", ".join(filter(None, [at, likely if at not in likely or not at else ""])) or (
            f"no edit of yours: {', '.join(others)}" if others else "no edit since the last check"
        )
        findings.append(
            Finding.of(check, likely if at and at in likely else where, "; ".join(words))
        )
    return findings


def _place(name: str, before: Facts, values: Mapping[str, Any]) -> str:
    """Return the function for which a step sends more than it did; "" for what has none."""
    if name != "collectives":
        return ""
    old, new = (facts[name]["places"] for facts in (before.values, values))
    more = {place: size - old.get(place, 0) for place, size in new.items()}
    place = max(more, key=lambda one: more[one], default="")
    return place.rpartition(" for ")[2] if place and more[place] > 0 else ""


def _keep(root: Path, before: Facts | None, now: Facts, left: Collection[str]) -> None:
    """Write the facts that hold from now on: those that have not changed as they were, less sent as it is."""
    values = dict(now.values)
    for name, old in (before.values if before else {}).items():
        if name in left or name not in values:
            values[name] = old
        elif not differences(name, old, values[name]) and name != "collectives":
            values[name] = old
    of = before if left and before else now  # what was edited is looked for until it is accepted
    write_facts(root, Facts(values, of.symbols, of.versions))


def _says(values: Mapping[str, Any], lines: Lines, failing: Collection[str]) -> dict[str, str]:
    """Return a few words on each check without findings."""
    sent = values.get("collectives", {"bytes": {}})["bytes"]
    first = values.get("loss", {"loss": []})["loss"][:1]
    words = {
        "loss": f"{first[0]:.6g} in the first step" if first else "",
        "order": f"{len(values['order'])} batches" if "order" in values else "",
        "reach": values.get("reach", ""),
        "specs": f"{len(values['specs'])} arrays are split" if "specs" in values else "",
        "checkpoint": f"{len(values['checkpoint'])} arrays" if "checkpoint" in values else "",
        "collectives": f"{sum(sent.values()):,} bytes a step" if "collectives" in values else "",
    }
    measured = {"update", "tests", *words, *(x.get("measured") for x in lines)}
    measured -= {name for name in words if name not in values}
    return {name: words.get(name, "") for name in CHECKS if name in measured - {*failing}}
