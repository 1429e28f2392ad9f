"""The projects of the goldens pass their own tests."""

import re
import shutil
import sys

import golden
import pytest
from generated import run

from redco_new.render.carried import carried

LONG = {"llama-gqa", "t5-2"}  # two minutes and a half
CASES = [
    pytest.param(case, id=case.name, marks=getattr(pytest.mark, level))
    for case in golden.cases()
    for level in ["long" if case.name in LONG else "slow"]
]


@pytest.mark.parametrize("case", CASES)
def test_the_tests_of_a_golden_pass(case, tmp_path):
    shutil.copytree(case / "project", tmp_path / "project", symlinks=False)
    for path in golden.classes(case):
        shutil.copy(path, tmp_path)
    package = golden.request_of(case).package
    shutil.rmtree(tmp_path / "project" / package / "runtime")  # a golden has a link to all of it
    files = [file for file in (tmp_path / "project").rglob("*") if file.is_file()]
    texts = {
        file.relative_to(tmp_path / "project").as_posix(): file.read_text(errors="replace")
        for file in files
    }
    for path, text in carried(texts, package).items():
        copy = tmp_path / "project" / path
        copy.parent.mkdir(exist_ok=True, parents=True)
        copy.write_text(text, encoding="utf-8")
    # The test of the boot is the same text in all projects, which test_boot.py runs.
    code, out, err = run(f"{sys.executable} -m pytest -q -k 'not boot'", tmp_path / "project")
    assert code == 0, out + err
    assert re.search(r"^[3-9] passed", out, re.MULTILINE), out
