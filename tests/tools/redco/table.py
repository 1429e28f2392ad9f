"""A project and Redco 0.4.23 in turn, on virtual CPU devices: step time, compile time, memory."""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        redco_new = [Path(sys.executable).with_name("redco-new"), "my-project", "--model", "gpt-j"]
        subprocess.run([*redco_new, "--shards", "4", "--output", folder], check=True)
        project = ["--project", f"{folder}/my-project", "--rounds", "5", "--L", "4", "--steps", "6"]
        subprocess.run([sys.executable, HERE / "run.py", *project, *sys.argv[1:]], check=True)
