"""A long wait says how far it is: on a terminal each second, elsewhere a line at a time."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from redco_runtime.base import progress
from redco_runtime.base.progress import ProgressBar

RUNTIME = Path(__file__).parents[2] / "runtime"
PROGRAM = """
import time
from redco_runtime.base.progress import ProgressBar
with ProgressBar("reading weights", 4000, "parameters") as bar:
    bar.update(1000)
    time.sleep(2.5)
"""


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.1)


def test_elsewhere_it_is_a_line_at_a_time(quick, capsys):
    with ProgressBar("reading weights", 4_000_000, "parameters", done=1_000_000) as bar:
        bar.update(1_000_000)
        time.sleep(0.25)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["reading weights: 50% of 4.00M parameters, 00:00, 00:00 left"] * 2


def test_of_what_nobody_knows_the_end_of_it_says_how_long_it_is_at_it(quick, capsys):
    with ProgressBar("compiling"):
        time.sleep(0.15)
    assert capsys.readouterr().err == "compiling: 00:00 so far\n"


def test_what_is_short_and_other_processes_say_nothing(quick, capsys):
    with ProgressBar("reading", 2, "B"), ProgressBar("reading", shown=False):
        time.sleep(0.05)
    with pytest.raises(KeyError), ProgressBar("reading"):
        raise KeyError
    assert capsys.readouterr().err == ""


def test_on_a_terminal_the_bar_moves_within_a_second():
    """By what has passed, where nothing is done."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    env = os.environ | {"PYTHONPATH": str(RUNTIME)}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, env=env)
    process.wait(timeout=30)
    text = os.read(ours, 1 << 16).decode()
    assert "25%" in text and "1.00k/4.00k" in text
    assert "[00:01<" in text and "[00:02<" in text
