"""What `redco check` prints."""

import json
from dataclasses import asdict

from redco_new.check.facts import FILE
from redco_new.check.run import Verdict
from redco_new.check.table import CHECKS


def print_verdict(verdict: Verdict, *, as_json: bool) -> int:
    """Print a verdict, a line for each check. Returns the exit code: 1 if something is wrong or changed."""
    code = int(bool(verdict.findings))
    if as_json:
        print(json.dumps(to_dict(verdict), indent=2))
        return code
    for name, check in CHECKS.items():
        findings = [one for one in verdict.findings if one.check == name]
        for one in findings:
            print(f"{check.kind:7} {name:12} {one.where}: {one.what}; {one.todo}")
        if not findings:
            word = "meant" if name in verdict.accepted else "ok" if name in verdict.says else "-"
            print(f"{word:7} {name:12} {verdict.says.get(name, 'not measured')}".rstrip())
    print(f"\n{summary(verdict)}")
    return code


def summary(verdict: Verdict) -> str:
    """Return the last line."""
    took = f"{verdict.seconds:.0f} s"
    if verdict.wrong:
        return f"{verdict.name}: wrong, {took}; nothing was recorded."
    if verdict.findings:
        names = ",".join(dict.fromkeys(one.check for one in verdict.findings))
        return (
            f"{verdict.name}: changed, {took}; if all of it is meant: redco check --accept {names}"
        )
    if verdict.recorded:
        edited = f", with your edits of {', '.join(verdict.edited[:5])}" if verdict.edited else ""
        return f"{verdict.name}: ok, {took}; the first check: {FILE} has it as it is{edited}. Commit it."
    return f"{verdict.name}: ok, {took}."


def to_dict(verdict: Verdict) -> dict[str, object]:
    """Return what --json prints.

    verdict: ok, changed or wrong.
    seconds: that it took.
    recorded: whether there was no .redco/check.json before.
    accepted: names of changes that --accept named.
    findings: what is wrong or changed, a line each.
    ok: check -> what it saw, of those that were measured and have no findings.
    """
    return {
        "verdict": "wrong" if verdict.wrong else "changed" if verdict.findings else "ok",
        "seconds": round(verdict.seconds, 1),
        "recorded": verdict.recorded,
        "accepted": list(verdict.accepted),
        "findings": [asdict(one) for one in verdict.findings],
        "ok": dict(verdict.says),
    }
