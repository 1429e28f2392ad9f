"""A small project of each test's own."""

import os

import pytest
from updates import Project


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(
        os, "fsync", lambda handle: None
    )  # it matters to power losses, and takes long
    made = Project(tmp_path / "my-project")
    made.install(monkeypatch)
    return made
