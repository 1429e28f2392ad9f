"""The projects of the goldens pass their own tests."""

import re
import shutil
import sys

import golden
import pytest
from generated import run


@pytest.mark.parametrize("case", golden.cases(), ids=lambda case: case.name)
def test_the_tests_of_a_golden_pass(case, tmp_path):
    shutil.copytree(case / "project", tmp_path / "project", symlinks=False)
    for path in golden.classes(case):
        shutil.copy(path, tmp_path)
    code, out, err = run(f"{sys.executable} -m pytest -q", tmp_path / "project")
    assert code == 0, out + err
    assert re.search(r"^[5-9] passed", out, re.MULTILINE), out
