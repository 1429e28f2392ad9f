"""The packages that stand alone do what the examples of their READMEs say."""

import doctest

import pytest
from generated import ROOT


@pytest.mark.parametrize("package", ["redco_new", "redco_plan", "redco_merge"])
def test_the_example_of_a_readme_does_what_it_says(package):
    readme = ROOT / "generator" / package / "README.md"
    outcome = doctest.testfile(str(readme), module_relative=False, report=True)
    assert outcome.attempted >= 5 and outcome.failed == 0
