"""Bad input: the exact message of each golden/errors/*, exit code 2, and nothing written."""

import pytest
from bad_input import complaint
from golden import ERRORS

from redco_new.errors import RedcoError, Refusal

# Not from the listing of what exists: a golden that goes missing is to fail here.
CASES = [
    "eject-not-redcos",
    "eject-yours",
    "inspect-html-is-a-folder",
    "inspect-html-not-a-page",
    "inspect-html-parent-missing",
    "inspect-html-read-only",
    "inspect-no-model",
    "inspect-unknown-model",
    "mesh-axis-twice",
    "mesh-no-experts",
    "mesh-not-axes",
    "mesh-size-zero",
    "mesh-unknown-axis",
    "name-and-output",
    "name-hides-a-module",
    "name-is-a-file",
    "name-keyword",
    "name-leads-out",
    "name-not-an-identifier",
    "name-under-a-file",
    "name-with-a-folder",
    "no-model",
    "own-argument-unknown",
    "own-arguments-missing",
    "own-class-missing",
    "own-file-missing",
    "own-import-error",
    "own-module-missing",
    "own-name-not-a-name",
    "own-no-recipe",
    "own-not-flax",
    "own-not-traceable",
    "own-output-unclear",
    "parent-is-a-file",
    "parent-missing",
    "parent-read-only",
    "resolve-no-side",
    "resolve-not-pending",
    "shards-against-mesh",
    "shards-negative",
    "shards-not-a-number",
    "shards-zero",
    "target-is-a-damaged-project",
    "target-taken",
    "template-missing",
    "template-with-tasks",
    "unknown-dtype",
    "unknown-model",
    "unknown-model-unlike-any",
    "unknown-option",
    "unknown-recipe",
    "update-fork",
    "update-json-alone",
    "update-manifest-damaged",
    "update-manifest-git",
    "update-manifest-newer",
    "update-name-changed",
    "update-no-project",
    "update-restore-and-check",
    "update-restore-ejected",
    "update-restore-not-redcos",
    "update-restore-with-a-flag",
    "update-toml-broken",
    "update-toml-key",
    "update-two-modes",
    "zero-not-a-stage",
]


def test_cases_are_those_on_disk():
    assert sorted(path.name for path in ERRORS.iterdir()) == CASES


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    said = complaint((ERRORS / name / "args.txt").read_text())
    assert said == (ERRORS / name / "stderr.txt").read_text(), "to accept it: make golden"
    assert said.count("\n") == 1
    assert "; " in said, "a message says what to do"


def test_error():
    error = RedcoError("--shards", "0 is no number of shards", "give 1 or more")
    assert str(error) == "--shards: 0 is no number of shards; give 1 or more"
    assert (RedcoError.exit_code, Refusal.exit_code) == (2, 1)
