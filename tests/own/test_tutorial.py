"""The examples of docs/tutorials/own-class.md, as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from generated import users_environ

pytestmark = pytest.mark.slow  # two projects, trained

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PAGE = (ROOT / "docs/tutorials/own-class.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
NAMES = {"CNN": "cnn.py", "Words": "words.py"}  # as the text between the blocks has them


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the page shows."""
    path = tmp_path_factory.mktemp("readme")
    for language, text in BLOCKS:
        if language == "python":
            name = next(name for word, name in NAMES.items() if f"class {word}(" in text)
            assert f"`{name}`" in PAGE
            (path / name).write_text(text)
        elif language == "toml":
            (path / "cnn.toml").write_text(text)
    return path


@pytest.mark.parametrize("commands", [text for language, text in BLOCKS if language == "bash"])
def test_the_commands(folder, commands):
    env = users_environ() | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    short = commands.replace("--steps 200", "--steps 2")
    assert short != commands
    done = subprocess.run(
        f"set -e\n{short}", shell=True, cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Created my-" in done.stdout and "held-out loss" in done.stdout
    assert re.search(r"^0 -> ", done.stdout, re.MULTILINE), "predict"
