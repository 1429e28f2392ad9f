"""Documents as lines: what both sides changed is there, or it is a conflict."""

import pytest

from redco_merge import WHOLE, documents, merge_document

README = """# my-project

Intro.

## Try it

```bash
# not a title
run it
```

## Data

Texts.

- one

### Formats

JSON.

## Links

See [data](#data).
"""
DATA = "## Data\n\nTexts.\n\n- one\n\n### Formats\n\nJSON.\n\n"
JOBS = """kind: JobSet
metadata:
  name: my-project
spec:
  # how often
  retries: 10 # of all
  containers:
    - name: train
      image: my-project #<
      env:
        - name: HOSTS
          value: "2" #<
        - name: TIMEOUT
          value: "1800"
      args: [--workdir, /run]
"""
SCRIPT = """#!/bin/bash
#SBATCH --job-name=my-project
#SBATCH --exclusive
set -eu
grace=120

stop() {
    kill -TERM "$pid"
}
srun --label \\
    python -m train --wait "$grace"
"""


def edit(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


Edits = list[tuple[str, str]]
# path, base, the user's edits, the template's, those that the merge has (None: a conflict)
CASES: dict[str, tuple[str, str, Edits, Edits, Edits | None]] = {
    "a section that the user edits, and the template moves": (
        "README.md",
        README,
        [("Texts.", "My texts.")],
        [(DATA, ""), ("## Try it", DATA + "## Try it")],
        [(DATA, ""), ("## Try it", DATA.replace("Texts", "My texts") + "## Try it")],
    ),
    "a section that the user moves, and the template edits": (
        "README.md",
        README,
        [(DATA, ""), ("## Try it", DATA + "## Try it")],
        [("Texts.", "New texts.")],
        [(DATA, ""), ("## Try it", DATA.replace("Texts", "New texts") + "## Try it")],
    ),
    "a section deleted, and moved": (
        "README.md",
        README,
        [("### Formats\n\nJSON.\n\n", "")],
        [("### Formats\n\nJSON.\n\n", ""), ("## Try it", "### Formats\n\nJSON.\n\n## Try it")],
        None,
    ),
    "a section deleted, and under another title": (
        "README.md",
        README,
        [("### Formats\n\nJSON.\n\n", "")],
        [("### Formats\n\nJSON.\n\n", ""), ("## Links", "## Kinds\n\nJSON.\n\n## Links")],
        None,
    ),
    "one line of text": ("README.md", README, [("Intro", "Mine")], [("Intro", "New")], None),
    "values of two keys": (
        "launch/jobset.yaml",
        JOBS,
        [("image: my-", "image: eu/my-")],
        [("10 #", "9 #")],
        [("image: my-", "image: eu/my-"), ("10 #", "9 #")],
    ),
    "a variable and a command": (
        "launch/slurm.sbatch",
        SCRIPT,
        [("=120", "=60")],
        [("--label", "--label --wait=9")],
        [("=120", "=60"), ("--label", "--label --wait=9")],
    ),
    "one value": (
        "launch/jobset.yaml",
        JOBS,
        [("retries: 10", "retries: 3")],
        [("retries: 10", "retries: 5")],
        None,
    ),
    "one key in two places": (
        "launch/jobset.yaml",
        JOBS,
        [("  name: my-project\n", "  name: my-project\n  labels: {a: b}\n")],
        [("metadata:\n", "metadata:\n  labels: {c: d}\n")],
        None,
    ),
    "arguments by their place": (
        "launch/jobset.yaml",
        JOBS,
        [("/run]", "/run, --steps, 9]")],
        [("/run]", "/run, --seed, 9]")],
        None,
    ),
    "one option in two places": (
        "launch/slurm.sbatch",
        SCRIPT,
        [("#SBATCH --exclusive", "#SBATCH --exclusive\n#SBATCH --time=1:00")],
        [("#SBATCH --job", "#SBATCH --time=2:00\n#SBATCH --job")],
        None,
    ),
    "a variable deleted, and used anew": (
        "launch/hosts.sh",
        SCRIPT,
        [("grace=120\n", ""), ('"$grace"', "60")],
        [('    kill -TERM "$pid"', '    sleep "$grace"\n    kill -TERM "$pid"')],
        None,
    ),
    "a function deleted, and called anew": (
        "launch/hosts.sh",
        SCRIPT,
        [('stop() {\n    kill -TERM "$pid"\n}\n', "")],
        [("grace=120\n", "grace=120\ntrap stop TERM\n")],
        None,
    ),
}
LAYOUTS = {
    "plain": lambda text: text,
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "bom": lambda text: "\ufeff" + text,
    "no-end": lambda text: text.removesuffix("\n"),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_case(name, layout):
    path, base, mine, other, both = CASES[name]
    ours, theirs = layout(edit(base, *mine)).encode(), edit(base, *other).encode()
    merged = merge_document(path, base.encode(), ours, theirs)
    if both is None:
        assert merged.content == ours and merged.conflicts
    else:
        assert merged.content.decode() == layout(edit(base, *both))
        assert merged.conflicts == []
        again = merge_document(path, theirs, merged.content, theirs)
        assert again.content == merged.content


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[-1]])
def test_either_side_deletes_what_the_other_leaves_alone(name):
    path, base, mine, other, both = CASES[name]
    ours, theirs = edit(base, *mine).encode(), edit(base, *other).encode()
    assert merge_document(path, ours, base.encode(), ours).content == base.encode()
    assert merge_document(path, theirs, theirs, base.encode()).content == base.encode()


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case[-1] and "moves" not in name]
)
@pytest.mark.parametrize("wrong", ["ours", "theirs", "base", "twice", "none"])
def test_a_wrong_result_is_refused(name, wrong, monkeypatch):
    path, base, mine, other, _ = CASES[name]
    ours, theirs = edit(base, *mine), edit(base, *other)
    content = {"ours": ours, "theirs": theirs, "base": base, "twice": ours + ours, "none": ""}
    result = documents.MergeResult(content[wrong].encode())
    monkeypatch.setattr(documents, "merge_lines", lambda *_: (ours.encode(), result))
    merged = merge_document(path, base.encode(), ours.encode(), theirs.encode())
    assert merged.content == ours.encode()
    assert [conflict.symbol for conflict in merged.conflicts] == [WHOLE]


def test_a_value_is_not_one_of_another_type():
    merged = merge_document("a.toml", b"a = 1\nb = 0\n", b"a = true\nb = 0\n", b"a = 2\nb = 0\n")
    assert merged.content == b"a = true\nb = 0\n" and merged.conflicts


def test_what_cannot_be_read_is_lines():
    merged = merge_document("a.yaml", b"a: [\nb\nc\n", b"a: [\nb\nc mine\n", b"a: [ 2\nb\nc\n")
    assert (merged.content, merged.conflicts) == (b"a: [ 2\nb\nc mine\n", [])


@pytest.mark.parametrize("path", ["a.yaml", "a.md", "a.sh"])
def test_the_side_that_was_chosen_is_taken(path):
    base, ours, theirs = b"a: 1\nb: 1\n", b"a: 2\nb: 1\n", b"a: 3\nb: 1\n"
    (conflict,) = merge_document(path, base, ours, theirs).conflicts
    chosen = merge_document(path, base, ours, theirs, {conflict.symbol})
    assert (chosen.content, chosen.conflicts) == (theirs, [])


def test_a_side_that_is_preferred_stays_a_conflict_where_the_whole_would_not_stand():
    base, ours = b"a: 1\n\n\n\nz: 1\n", b"a: 2\n\n\n\nz: 1\nb: 1\n"
    theirs = b"a: 3\nb: 2\n\n\n\nz: 1\n"
    plain = merge_document("x.yaml", base, ours, theirs)
    assert [(x.symbol, x.pending) for x in plain.conflicts] == [("line 1", False)]
    merged = merge_document("x.yaml", base, ours, theirs, ["line 1"])
    assert merged.content == plain.content
    (conflict,) = merged.conflicts
    assert conflict.symbol == "line 1" and "2 times: 0.b" in conflict.reason
