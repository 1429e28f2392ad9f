"""Who owns each file of a project."""

import re

import pytest

from redco_new.errors import RedcoError
from redco_new.render.owners import (
    EJECTED,
    GENERATED,
    HEADERS,
    YOURS,
    eject_header,
    owner,
    with_header,
)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("my_project/pipeline.py", YOURS),
        ("redco.toml", YOURS),
        ("my_project/sharding.py", GENERATED),
        ("tests/test_boot.py", GENERATED),
        ("my_project/runtime/data/batches.py", GENERATED),
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


@pytest.mark.parametrize("owned_by", [GENERATED, YOURS])
def test_header(owned_by):
    header = HEADERS[owned_by]
    assert with_header("tests/a.py", "x = 1\n", owned_by) == f"{header}\nx = 1\n"
    assert with_header("launch/a.sh", "#!/bin/sh\nx\n", owned_by) == f"#!/bin/sh\n{header}\nx\n"
    for path in ("README.md", "my_project/runtime/a.py"):
        assert with_header(path, "x = 1\n", owned_by) == "x = 1\n"


def test_header_of_an_ejected_file():
    text = with_header("launch/a.sh", "#!/bin/sh\nx\r\n", GENERATED)
    ejected = eject_header(text.encode())
    assert ejected == f"#!/bin/sh\n{EJECTED}\nx\r\n".encode()
    assert eject_header(ejected) == ejected, "once, and only where redco's own is"
    assert eject_header(b"\xff") == b"\xff"
