"""What programs print where nobody reads it any more, as after `| head`."""

import os
import subprocess
import sys
from pathlib import Path

import redco_runtime

RUNTIME = {**os.environ, "PYTHONPATH": str(Path(redco_runtime.__file__).parents[1])}


def unread(*args):
    """Run Python with a stdout that nobody reads; returns (exit code, stderr)."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, *map(str, args)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=RUNTIME)
    os.close(writing)
    return done.returncode, done.stderr


def test_all_else_goes_on():
    code = "from redco_runtime.base.messages import show; show('a'); show('b'); print('c'); exit(3)"
    assert unread("-c", code) == (3, "")


def test_a_report_is_written_whether_it_is_read_or_not(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
    assert unread(
        "-c", "from redco_new.cli import redco_main; redco_main()", "report", tmp_path
    ) == (0, "")
    assert (tmp_path / "report.png").is_file()
