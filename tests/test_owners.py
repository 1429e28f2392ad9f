"""Who owns each file of a project."""

import re

import pytest

from redco_new.errors import RedcoError
from redco_new.owners import GENERATED, YOURS, owner


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("my_project/pipeline.py", YOURS),
        ("redco.toml", YOURS),
        ("my_project/sharding.py", GENERATED),
        ("tests/test_boot.py", GENERATED),
        ("redco_runtime/loop.py", GENERATED),
        (".gitignore", GENERATED),
    ],
)
def test_owners(path, name):
    assert owner(path, "my_project") == name


@pytest.mark.parametrize(
    "path", ["other/model.py", "launch/../../x.py", "/launch/x", "my_project/new.py", "setup.py"]
)
def test_paths_without_an_owner(path):
    with pytest.raises(RedcoError, match=re.escape(path)):
        owner(path, "my_project")
